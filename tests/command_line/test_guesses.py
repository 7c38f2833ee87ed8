"""What people type first: it works, or one error says what to type."""

import shlex

import pytest
from polycast.command_line.commands import main

# What follows the program's name, the status, and what its output or its error has in it.
GUESSED = """
--help                                             | 0 | usage: polycast [COMMAND]
-h                                                 | 0 | usage: polycast [COMMAND]
help                                               | 0 | diff SIDE SIDE
help diff                                          | 0 | usage: polycast diff
help nonsense                                      | 2 | (choose from
--version                                          | 0 | polycast
version                                            | 2 | write polycast --version
                                                   | 0 | devices found
info                                               | 2 | write polycast, without a command
list                                               | 2 | write polycast op --device cuda
list --device cuda                                 | 2 | write polycast op --device cuda
ops                                                | 2 | write polycast op --device cuda
op --device cuda                                   | 0 | binary_cross_entropy
conv2d                                             | 0 | lower_precision_fp  all
conv2d --device cuda                               | 0 | lower_precision_fp  cuda
conv2d -d cuda                                     | 0 | lower_precision_fp  cuda
conv2d --device gpu                                | 2 | did you mean 'cuda'?
show softmax                                       | 2 | write polycast op OP
op softmax                                         | 0 | fp32_set_opt_dtype
op softmax linear matmul                           | 0 | lower_precision_fp
linear cuda                                        | 2 | 'cuda' is no op
codegen                                            | 2 | write python -m polycast.codegen --help
softmax linear                                     | 0 | lower_precision_fp
lookup torch.nn.functional.gelu                    | 2 | write polycast op OP
op torch.nn.functional.gelu                        | 0 | gelu
explain nn.LayerNorm                               | 2 | write polycast op OP
op sofmax                                          | 2 | did you mean 'softmax'?
sofmax                                             | 2 | did you mean 'softmax'?
op trace                                           | 0 | trace
aten::trace                                        | 0 | trace
op diff                                            | 0 | diff: unlisted on every device.
softmax --all                                      | 2 | unrecognized arguments: --all
history softmax                                    | 2 | write polycast diff SIDE SIDE
diff torch-2.10 torch-2.12                         | 0 | rms_norm
diff cpu cuda                                      | 0 | why
diff                                               | 2 | The releases are torch-2.9
diff torch-2.10                                    | 2 | diff takes two sides, as in: diff torch-2.11 torch-2.12
diff torch-1.0 torch-2.12                          | 2 | unknown release 'torch-1.0'; did you mean
diff torch-2.11:cpu torch-2.11:cuda                | 2 | did you mean 'torch-2.11'?
diff cuda cuad                                     | 2 | did you mean 'cuda'?
diff torch-2.10 torch-2.12 --json                  | 2 | unrecognized arguments: --json
compare torch-2.10 torch-2.12                      | 2 | write polycast diff SIDE SIDE
torch-2.11                                         | 2 | for a release or a device: polycast diff torch-2.11 OTHER
cuda                                               | 2 | for a release or a device: polycast diff cuda OTHER
releases                                           | 2 | write polycast help diff, which lists them
devices                                            | 2 | write polycast help diff, which lists them
trace                                              | 2 | usage: polycast trace
trace nope.py                                      | 2 | there is no script 'nope.py'; with -m it would be a module
trace python train.py                              | 2 | there is no script 'python'; leave it out
trace -m mypkg.train                               | 2 | there is no module 'mypkg.train'
trace -o trace.json train.py                       | 2 | unrecognized arguments: -o
check                                              | 2 | usage: polycast check
check no.yaml                                      | 1 | no.yaml:1:1: error: cannot be read
validate my.yaml                                   | 2 | write polycast check FILE
chekc my.yaml                                      | 2 | did you mean polycast check?
run --policy my.yaml train.py                      | 2 | POLYCAST_POLICY=FILE
export torch-2.11                                  | 2 | .save('rules.yaml')
init my.yaml                                       | 2 | {ops: {softmax: fp32}}
conv2d --dvice cpu                                 | 2 | --dvice cpu; did you mean '--device'?
diff cpu cuda --devcie cpu                         | 2 | did you mean '--device'?
trace --by-opp train.py                            | 2 | did you mean '--by-op'?
verify --josn x                                    | 2 | did you mean '--json'?
bisect --goood=fp32 -- true                        | 2 | --goood=fp32; did you mean '--good'?
--versoin                                          | 2 | there is no option '--versoin'; did you mean --version?
xyzzyplugh                                         | 2 | polycast help lists the commands
--list-ops                                         | 2 | unrecognized arguments: --list-ops
-l                                                 | 2 | unrecognized arguments: -l
-v                                                 | 2 | unrecognized arguments: -v
"""
ROWS = [[cell.strip() for cell in line.split("|")] for line in GUESSED.strip("\n").splitlines()]


@pytest.mark.parametrize(("words", "status", "text"), ROWS, ids=[row[0] for row in ROWS])
def test_a_guess_works_or_is_pointed_the_way(
    words: str, status: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(shlex.split(words)) == int(status)
    printed = capsys.readouterr()
    assert text in (printed.err if int(status) else printed.out)
    assert bool(printed.err) == bool(int(status))
