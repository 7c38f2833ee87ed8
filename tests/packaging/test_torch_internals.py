"""Private names of PyTorch: only ``polycast/torch_internals.py`` has them, and the installed PyTorch defines each."""

import ast
from collections.abc import Iterator
from pathlib import Path

import polycast
from polycast import torch_internals

PACKAGE = Path(str(polycast.__file__)).parent


def private_names(text: str) -> Iterator[str]:
    """Yield the private names of ``torch`` that a file uses or imports, and all names from private modules."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == "torch":
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name.partition(".")[0] == "torch"]
        elif isinstance(node, ast.Attribute) and (name := ast.unparse(node)).startswith("torch."):
            names = [name.partition("(")[0]]
        else:
            continue
        yield from (name for name in names if any(part[:1] == "_" != part[1:2] for part in name.split(".")))


def test_private_names_are_found() -> None:
    text = (
        "from torch._C import x\nfrom torch.amp import _y\nimport torch._ops\ntorch._C.z()\ntorch.w\ntorch.__version__"
    )
    assert [*private_names(text)] == ["torch._C.x", "torch.amp._y", "torch._ops", "torch._C.z", "torch._C"]


def test_no_other_file_has_a_private_name_of_torch() -> None:
    texts = {str(path.relative_to(PACKAGE)): path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    assert texts.pop("torch_internals.py")
    assert {file: found for file, text in texts.items() if (found := [*private_names(text)])} == {}


def test_the_installed_torch_has_the_names_that_functions_look_up() -> None:
    import torch._dynamo

    assert torch_internals.guard_manager_class().compile_check_fn
    assert torch_internals.output_graph_class().call_user_compiler
    with torch_internals.backward_without_autocast():
        assert torch._functorch.config.backward_pass_autocast == "off"
    assert torch_internals.compile_lock() and torch_internals.dynamo()
    assert torch_internals.dynamo_translator() is None
    assert isinstance(torch_internals.unsupported("x"), Exception)
    assert torch_internals.function_modes() == []
    assert not torch_internals.is_only_traced() and not torch_internals.is_fake_mode_active()
    assert not torch_internals.is_jit_tracing() and not torch_internals.is_fx_tracing()
    assert any(hasattr(torch.utils.checkpoint, name) for name in torch_internals.CHECKPOINTS_WITHOUT_REENTRANT)
