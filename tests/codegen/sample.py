"""A small policy and fake operator schemas, so that the tests do not depend on the installed PyTorch."""

from pathlib import Path
from types import SimpleNamespace

from codegen.model import Policy
from codegen.parse import read_policy
from codegen.schemas import Schemas
from codegen.yaml_nodes import PolicyError

_TENSOR = SimpleNamespace(bend=None, fold=None)
_FUNCTIONS = ("Origami", "bend", "count", "fold", "join", "size", "sway", "tally", "unfold")

SCHEMAS = Schemas(
    """
- func: bend(Tensor self) -> Tensor
- func: bend_(Tensor(a!) self) -> Tensor(a!)
- func: bend.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)
- func: fold(Tensor self, Tensor other) -> Tensor
- func: join(Tensor[] tensors) -> Tensor
- func: size(Tensor self, Scalar p=2) -> Tensor
- func: size.dim(Tensor self, int[1] dim) -> Tensor
- func: size.dtype(Tensor self, Scalar p, *, ScalarType dtype) -> Tensor
- func: sway(Tensor self, Tensor? other=None) -> Tensor
- func: tally(Tensor self, *, ScalarType? dtype=None) -> Tensor
- func: tally.dim(Tensor self, int[1] dim, *, ScalarType? dtype=None) -> Tensor
- func: turn.by(Tensor self, Scalar by) -> Tensor
- func: unbend(Tensor(a) self) -> Tensor(a)
- func: unfold(Tensor(a) self) -> Tensor(a)[]
- func: void(int size) -> Tensor
- func: wipe(Tensor(a!) self) -> ()
""",
    (2, 9),
    ("AutocastCPU", "AutocastCUDA", "AutocastPrivateUse1", "AutocastXLA"),
    cast_by_torch=["unfold"],  # PyTorch casts `unfold`, although it returns a view.
    torch=SimpleNamespace(**dict.fromkeys(_FUNCTIONS), Tensor=_TENSOR),
)

HEAD = """\
devices:
  cuda: {dispatch_key: AutocastCUDA, lower_precision: [float16, bfloat16]}
  xla: {dispatch_key: AutocastXLA, lower_precision: [bfloat16], like: cuda}
  cpu: {dispatch_key: AutocastCPU, lower_precision: [bfloat16]}
categories:
  lower_precision_fp: Casts to the lower precision.
  fp32: Casts to float32.
  fp32_set_opt_dtype: Fills in the dtype.
  fp32_append_dtype: Appends the dtype.
  promote: Casts to the widest dtype.
  banned: Raises.
  input_dtype: Leaves it.
  stock: Keeps torch's kernel.
ops:
"""

POLICY = f"""{HEAD}\
  bend: {{cast: fp32, public: [torch.bend]}}
  fold: {{cast: {{cuda: promote}}, public: [torch.fold]}}
  size: {{cast: {{cuda: stock}}, public: [torch.size]}}
  tally: {{cast: {{cpu: fp32}}, overloads: [default, dim], public: [torch.tally]}}
"""

# `EXCEPTIONS` adds an overload of older releases, and a backend's device with exceptions, to the small policy.
EXCEPTIONS = POLICY.replace("[default, dim]", "[default, dim: {torch: '<2.13'}]").replace(
    "  cpu:",
    """\
  npu:
    dispatch_key: AutocastXLA
    lower_precision: [bfloat16]
    like: xla
    backend: a/file of its repository
    except: {lower_precision_fp: [tally.dim], fp32: [tally], unlisted: [bend]}
  cpu:""",
    1,
)

# `EVERY_CATEGORY` has a rule of each category. The device `mine`, of a backend outside of PyTorch, lacks only fp32.
MINE = "  mine: {dispatch_key: AutocastXLA, lower_precision: [bfloat16], like: cuda, backend: its file}\n"
EVERY_CATEGORY = f"""\
{HEAD.replace("categories:", MINE + "categories:")}\
  bend: {{cast: {{cuda: lower_precision_fp}}, public: [torch.bend]}}
  fold: {{cast: {{cuda: {{as: input_dtype, note: Why.}}, cpu: promote}}, public: [torch.fold]}}
  join: {{cast: {{cuda: promote}}, public: [torch.join]}}
  size:
    cast: {{mine: [{{overloads: [default], as: fp32_append_dtype}}, {{as: stock, note: Its own.}}]}}
    overloads: [default: {{dtype_overload: dtype}}, dim]
    public: [torch.size]
  sway: {{cast: {{cuda: banned}}, public: [torch.sway], message: 'Call "bend".'}}
  tally: {{cast: {{cuda: fp32_set_opt_dtype}}, overloads: [default, dim: {{torch: '<2.13'}}], public: [torch.tally]}}
  turn: {{cast: {{cpu: fp32}}, overloads: [by], public: [torch.count]}}
"""


def read(folder: Path, text: str | bytes) -> Policy:
    """Read a policy from its text."""
    path = folder / "policy.yaml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_policy(path, "policy.yaml", SCHEMAS)


def problems(folder: Path, text: str | bytes) -> str:
    """Return the problems of a policy, one on each line, or "" for a valid policy."""
    try:
        read(folder, text)
    except PolicyError as error:
        return str(error)
    return ""


def edited(old: str, new: str) -> str:
    """Return the small policy with one replacement."""
    assert POLICY.count(old) == 1, f"{old!r} stands {POLICY.count(old)} times in the policy"
    return POLICY.replace(old, new)
