//! `docs/plugin-test.md`, made from the table of cases, so that it cannot say anything else.

use crate::{TOLERANCE, cases};

/// The page.
pub fn page() -> String {
    let mut text = format!(
        "# What `onebit-host plugin test` tests\n\
         \n\
         <!-- Made by `onebit-host docs plugin-test`; change host/kit/src/page.rs and the cases beside it instead. -->\n\
         \n\
         {INTRODUCTION}\n\
         ## When two results are the same\n\
         \n\
         {SAME}\n\
         ## Cases\n\
         \n\
         Laws of the contract; `onebit-host plugin test --list --json` gives them to programs.\n\
         \n\
         | case | law | needs |\n\
         |---|---|---|\n"
    )
    .replace("@TOLERANCE@", &TOLERANCE.to_string());
    for case in cases::all() {
        let needs: Vec<&str> = case.needs.iter().map(|need| need.name()).collect();
        text.push_str(&format!("| `{}` | {} | {} |\n", case.id, case.law, needs.join(", ")));
    }
    text
}

const INTRODUCTION: &str = "\
```sh
onebit-host plugin test dist/my-plugin --model model.gguf     # all cases, through every door that the plugin has
onebit-host plugin test dist/my-plugin --model model.gguf --only-failed --exclude leaks
onebit-host plugin test dist/my-plugin --model model.gguf --include forward.chunks --door c --in-process   # in a debugger
onebit-host plugin test dist/my-plugin --model model.gguf --fuzz 60
```

Each case runs in a process of its own: a crash, a hang, an exit or a line on standard output is the result of that case. The exit status is 0 only if
nothing failed. Without `--model` a model of the plugin's formats is taken from its own folder, if there is exactly one; without any, cases that need
one are skipped, and the last line says so. Cases compute on the CPU if the plugin does, else on the `--device` that you name.

A case passes, fails, warns (no law is broken, and something should be looked at) or is skipped with a reason. What the plugin does not promise in its
limits it may refuse as unsupported; what it promises must be exact. The processes are confined as workers are ([sandbox.md](sandbox.md)), by the same settings;
a call that the sandbox refused is a warning. `--in-process` is not confined, and neither is a plugin in
`ONEBIT_SANDBOX_EXEMPT`.

`--fuzz` makes lists of operations on sequences by chance, valid and invalid ones: batches, copies, cuts, shifts, saves and loads. Each list runs
against an oracle that computes every sequence from the start in a new session. The first that fails is made as small as it goes, each try in a new
process; then you get the seed, the operations, and the command line that runs them again.
";

const SAME: &str = "\
Bit for bit: the same batches in a new session, and a saved state that is loaded, wherever it is loaded.

Within a tolerance: whatever may run other kernels or add in another order, which is batches of another size, sequences beside others, and state that lies
elsewhere in memory. Compared is each row's distribution, by relative entropy in nats, and the worst row may be @TOLERANCE@ away (`--tolerance`). Rounding
moves every log-probability a little to either side, which this measure counts squared: with a small model of 4-bit weights, whose activations are rounded
to 8 bits, single log-probabilities moved by up to 0.4 when state lay elsewhere, and the distributions by up to 0.16 nats. Another token before the
last moved the same model's distribution by 2.9 nats. The measured numbers are shown with each case.

Cancelling: back 250 ms after the flag was set, at the best of three tries, and longer on a machine that is measured to be busy. Growth: 1 MiB that nobody frees in 50 cycles, counted by malloc, and 32 MiB of
the process; open files, mappings of the model and threads exactly.
";
