//! The table of `onebit.tokenize/1`.

use onebit_plugin_api as abi;

use super::guard::guard;
use super::model::model;
use super::wire;
use crate::{Encode, Error, Tokenizer};

pub(super) static TABLE: abi::OnebitTokenize = abi::OnebitTokenize {
    struct_size: size_of::<abi::OnebitTokenize>(),
    vocabulary: Some(vocabulary),
    token_info: Some(token_info),
    encode: Some(encode),
    decode: Some(decode),
};

/// # Safety
///
/// `raw` is null, or a live model.
unsafe fn tokenizer_of<'a>(raw: *mut abi::OnebitModel) -> Result<&'a dyn Tokenizer, Error> {
    // SAFETY: as promised.
    unsafe { model(raw) }?.model.tokenizer().ok_or_else(|| Error::unsupported("this model has no onebit.tokenize/1"))
}

unsafe extern "C" fn vocabulary(raw: *mut abi::OnebitModel, out: *mut abi::OnebitVocabulary) -> abi::OnebitStatus {
    guard(|| {
        // SAFETY: the host's promise for `raw`.
        let facts = unsafe { tokenizer_of(raw) }?.vocabulary();
        let value = abi::OnebitVocabulary {
            struct_size: 0,
            size: facts.size,
            bos: facts.bos.unwrap_or(abi::ONEBIT_NO_TOKEN),
            eos: facts.eos.unwrap_or(abi::ONEBIT_NO_TOKEN),
            eot: facts.eot.unwrap_or(abi::ONEBIT_NO_TOKEN),
            adds_bos: facts.adds_bos.into(),
            adds_eos: facts.adds_eos.into(),
            chat_template: facts.chat_template.as_deref().map_or(abi::OnebitStr::EMPTY, abi::OnebitStr::new),
            kind: abi::OnebitStr::new(&facts.kind),
        };
        // SAFETY: the host's promise for `out`.
        unsafe { wire::write(out, &value) }
    })
}

unsafe extern "C" fn token_info(raw: *mut abi::OnebitModel, token: u32, out: *mut abi::OnebitTokenInfo) -> abi::OnebitStatus {
    guard(|| {
        // SAFETY: the host's promise for `raw`.
        let tokenizer = unsafe { tokenizer_of(raw) }?;
        let info = tokenizer
            .token(token)
            .ok_or_else(|| Error::invalid_argument(format!("token {token} of a vocabulary of {}", tokenizer.vocabulary().size)))?;
        let flags = [
            (info.control, abi::ONEBIT_TOKEN_CONTROL),
            (info.end, abi::ONEBIT_TOKEN_END),
            (info.byte, abi::ONEBIT_TOKEN_BYTE),
            (info.added, abi::ONEBIT_TOKEN_ADDED),
            (info.unused, abi::ONEBIT_TOKEN_UNUSED),
        ];
        let value = abi::OnebitTokenInfo {
            struct_size: 0,
            flags: flags.iter().filter(|(there, _)| *there).map(|(_, bit)| bit).sum(),
            score: info.score,
            text: abi::OnebitStr::new(info.text),
        };
        // SAFETY: the host's promise for `out`.
        unsafe { wire::write(out, &value) }
    })
}

/// Copies `values` out if they fit; tells how many there are in any case.
fn deliver<T: Copy>(values: &[T], buffer: &mut [T]) -> Result<(), Error> {
    match buffer.get_mut(..values.len()) {
        Some(place) => {
            place.copy_from_slice(values);
            Ok(())
        }
        None => Err(Error::buffer_too_small(buffer.len() as u64, values.len() as u64)),
    }
}

unsafe extern "C" fn encode(raw: *mut abi::OnebitModel, args: *const abi::OnebitEncodeArgs, out_n: *mut u32) -> abi::OnebitStatus {
    guard(|| {
        // SAFETY: the host's promise for all arguments.
        let (tokenizer, args, text, buffer, out_n) = unsafe {
            let args = wire::read(args)?;
            let buffer = wire::slice_mut(args.tokens, args.capacity as usize, "tokens")?;
            (tokenizer_of(raw)?, args, wire::text(args.text, "text")?, buffer, wire::slice_mut(out_n, 1, "out_n")?)
        };
        let how = Encode {
            parse_control: args.flags & abi::ONEBIT_ENCODE_PARSE_CONTROL != 0,
            add_special: args.flags & abi::ONEBIT_ENCODE_ADD_SPECIAL != 0,
        };
        let tokens = tokenizer.encode(text, how)?;
        out_n[0] = u32::try_from(tokens.len()).map_err(|_| Error::internal("more tokens than can be counted"))?;
        deliver(&tokens, buffer)
    })
}

unsafe extern "C" fn decode(raw: *mut abi::OnebitModel, args: *const abi::OnebitDecodeArgs, out_n: *mut usize) -> abi::OnebitStatus {
    guard(|| {
        // SAFETY: the host's promise for all arguments.
        let (tokenizer, args, tokens, buffer, out_n) = unsafe {
            let args = wire::read(args)?;
            let tokens = wire::slice(args.tokens, args.n as usize, "tokens")?;
            let buffer = wire::slice_mut::<u8>(args.bytes.cast(), args.capacity, "bytes")?;
            (tokenizer_of(raw)?, args, tokens, buffer, wire::slice_mut(out_n, 1, "out_n")?)
        };
        let size = tokenizer.vocabulary().size;
        if let Some(token) = tokens.iter().find(|token| **token >= size) {
            return Err(Error::invalid_argument(format!("token {token} of a vocabulary of {size}")));
        }
        let bytes = tokenizer.decode(tokens, args.control != 0)?;
        out_n[0] = bytes.len();
        deliver(&bytes, buffer)
    })
}
