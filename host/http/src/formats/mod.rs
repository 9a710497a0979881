//! What families of models write around reasoning and calls of functions, and how an answer is read back.
//!
//! | file | idea |
//! |---|---|
//! | `table` | the families, one row each |
//! | `parser` | splits an answer while it is written |
//! | `piece`, `reader` | what comes out; what readers share |
//! | `json_calls`, `named_json`, `tagged`, `enclosed`, `harmony` | one way of writing calls each |
//! | `json`, `python` | values |
//! | `write` | calls in a family's notation, for templates that write none |
//! | `grammar` | the same forms as a grammar, for calls that a request demands |

mod enclosed;
mod grammar;
mod harmony;
mod json;
mod json_calls;
mod named_json;
mod parser;
mod piece;
mod python;
mod reader;
mod table;
mod tagged;
mod write;

pub use grammar::{Demand, Grammar, grammar, harmony_answer};
pub use parser::{Marks, Parser};
pub use piece::Piece;
pub use reader::Tool;
pub use table::{
    BY_HOST, REASONING_FORMATS, ReasoningFormat, TOOL_FORMATS, ToolFormat, describes_tools, reasoning_format, reasoning_format_of,
    tool_format, tool_format_of,
};

pub use write::written;

#[cfg(test)]
mod tests;
