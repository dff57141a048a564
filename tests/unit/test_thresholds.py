"""The judge has few thresholds, and each says what it protects."""

import ast
from pathlib import Path

from truemem import verdict
from truemem_workbench.judge import thresholds

OF_THE_SCHEDULE = {"LEVEL_INVOCATIONS", "MOST_LEVELS_KEPT", "LEVELS_NEEDED", "MINIMUM", "STEP", "VERDICT_EVERY"}
"""When the sidecar looks and what it keeps: they decide nothing."""


def numbers(path: str) -> dict[str, str]:
    """The names that stand for a number in a module, with the text behind each."""
    body, found = ast.parse(Path(path).read_text()).body, dict[str, str]()
    for each, after in zip(body, [*body[1:], None], strict=True):
        if not isinstance(each, ast.Assign) or not isinstance(each.value, (ast.Constant, ast.BinOp, ast.Tuple)):
            continue
        if isinstance(each.value, ast.Constant) and type(each.value.value) not in (int, float):
            continue
        text = after.value if isinstance(after, ast.Expr) else None
        said = str(text.value) if isinstance(text, ast.Constant) else ""
        names = each.targets[0].elts if isinstance(each.targets[0], ast.Tuple) else each.targets
        found |= {name.id: said for name in names if isinstance(name, ast.Name) and name.id.isupper()}
    return found


def test_the_judge_has_sixty_thresholds_at_most_each_with_why() -> None:
    own, of_curve = numbers(thresholds.__file__), numbers(verdict.__file__)
    assert {"PASSES", "GREW_KIB", "HELD_SHARE"} < own.keys()
    assert {"GROWING_FROM", "GATE_KIB", "STRAIGHT_TAIL_PART"} < of_curve.keys()
    found = own | {name: why for name, why in of_curve.items() if name not in OF_THE_SCHEDULE}
    assert all(found.values()), [name for name, why in found.items() if not why]
    assert len(found) <= 60, sorted(found)
