"""The generator of generated/ from policy.yaml: `python -m codegen`.

Each module imports only those before it: schemas, model, parse, render, standalone. `write` imports none of them.
Nothing here imports torch, which takes seconds. The build has imported it and passes it in; then the public names of
ops are looked up in it. The grammar of policies, `polycast._grammar`, serves the generator and polycast.

The model (model.py) has these principles:

- Parse, don't validate: the model holds valid values only, so no module after parse.py checks again. An op or
  device with a problem is reported with its place and dropped. A valid value never replaces a wrong one.
- The model is frozen. It holds no YAML, no place in a file and no fact of the installed torch. So the generated files
  depend on the policy alone, and a change of layout or of a comment changes none of them.
- A `Rule` is of one overload on one device for a range of torch releases. The parser resolves `like`,
  `others` and alternatives, and the ranges do not overlap. So readers of rules need to know none of these.
- What C++ or a document needs of a rule is a property of the rule, so templates hold no string surgery.
- Rules that hold for the installed torch are checked against its schemas. Nothing else depends on it.
"""

import sys
from pathlib import Path
from types import ModuleType


def find_grammar() -> None:
    """Have a process that builds import `polycast._grammar` from the source tree, and not the rest of polycast.

    The rest needs torch and the compiled module. A polycast that is installed may be an older one.
    """
    package = ModuleType("polycast")
    package.__path__ = [str(Path(__file__).parents[1] / "python" / "polycast")]
    sys.modules["polycast"] = package
