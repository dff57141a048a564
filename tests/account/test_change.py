"""Records of changes: whatever truemem and others change in turn, detach restores what was there before truemem."""

from hypothesis import assume, given
from hypothesis import strategies as st
from truemem_workbench.attach.change import (
    CHAINED_WRAPPER,
    CLOUDWATCH,
    COLLECTOR_CONFIG,
    EXACT_WRAPPER,
    WRAPPER,
    Change,
    change_back,
    change_to,
    from_document,
    joined_record,
    taken_off,
    variables_after,
)
from truemem_workbench.aws.layer_zips import is_ours

OURS = [f"arn:aws:lambda:us-east-1:123456789012:layer:truemem-x86_64:{number}" for number in (1, 2)]
OTHERS = [f"arn:aws:lambda:us-east-1:123456789012:layer:vendor-{number}:1" for number in (1, 2, 3)]
NAMES = ["A", "B", WRAPPER, CHAINED_WRAPPER, COLLECTOR_CONFIG, "TRUEMEM_AGGREGATE"]

variables = st.dictionaries(
    st.sampled_from(NAMES), st.sampled_from(["", "1", EXACT_WRAPPER, CLOUDWATCH, "/opt/vendor"])
)
wanted = st.dictionaries(st.sampled_from(NAMES[2:]), st.sampled_from(["60", EXACT_WRAPPER, CLOUDWATCH, "/opt/vendor"]))
layers = st.lists(st.sampled_from([*OURS, *OTHERS]), unique=True, max_size=4).map(tuple)
one_of_ours = layers.filter(lambda arns: sum(map(is_ours, arns)) <= 1)


def attached(now: tuple[tuple[str, ...], dict[str, str]], version: str, values: dict[str, str]) -> Change:
    """The change that attaches this version with these variables."""
    after = tuple(version if is_ours(arn) else arn for arn in now[0])
    return change_to((now[0], after if version in after else (*now[0], version)), now[1], values)


def starts(held: tuple[str, ...], values: dict[str, str]) -> bool:
    """True unless the function names a file of our layer and does not have it."""
    names_one = values.get(WRAPPER) == EXACT_WRAPPER or values.get(COLLECTOR_CONFIG) == CLOUDWATCH
    return not names_one or any(map(is_ours, held))


@given(one_of_ours, variables, st.lists(st.tuples(st.sampled_from(OURS), wanted), min_size=1, max_size=3))
def test_any_number_of_attachments_is_undone_by_one_record(
    held: tuple[str, ...], values: dict[str, str], attachments: list[tuple[str, dict[str, str]]]
) -> None:
    assume(starts(held, values))
    now, record = (held, values), None
    for version, asked in attachments:
        change = attached(now, version, asked)
        record = joined_record(record, change) if record else change
        now = (change.layers[1], variables_after(now[1], change))
    assert record is not None
    back, left = change_back(from_document(record.document()), *now)
    assert (back.layers[1], variables_after(now[1], back)) == (held, values)
    assert not [note for note in left if "changed since" in note]


@given(one_of_ours, variables, wanted, layers, variables)
def test_what_others_have_changed_since_stays_and_is_named(
    held: tuple[str, ...], values: dict[str, str], asked: dict[str, str], later: tuple[str, ...], others: dict[str, str]
) -> None:
    record = attached((held, values), OURS[1], asked)
    after = variables_after(values, record)
    back, left = change_back(record, later, others)
    result = variables_after(others, back)
    assert [arn for arn in back.layers[1] if not is_ours(arn)] == [
        arn for arn in (held if later == record.layers[1] else later) if not is_ours(arn)
    ]
    for name in {*others, *after} - {WRAPPER, CHAINED_WRAPPER, COLLECTOR_CONFIG}:  # these name files of the layer
        if others.get(name) != after.get(name):
            assert result.get(name) == others.get(name)
    # Without the layer, what names a file of it goes in any case: the function would not start.
    gone = {COLLECTOR_CONFIG} if others.get(COLLECTOR_CONFIG) == CLOUDWATCH else set()
    if EXACT_WRAPPER in (others.get(WRAPPER), values.get(WRAPPER)):
        gone |= {WRAPPER, CHAINED_WRAPPER}
    for name in {*record.variables} - (set() if any(map(is_ours, back.layers[1])) else gone):
        if others.get(name) not in record.variables[name]:
            assert any(note.startswith(f"{name} was changed") for note in left)


@given(layers, variables)
def test_without_a_record_everything_goes_and_it_starts(held: tuple[str, ...], values: dict[str, str]) -> None:
    change = taken_off(held, values)
    result = variables_after(values, change)
    assert change.layers[1] == tuple(arn for arn in held if not is_ours(arn))
    assert starts(change.layers[1], result) or values.get(CHAINED_WRAPPER) == EXACT_WRAPPER
    others = {name for name in values if name in "AB"}
    if any(map(is_ours, held)):
        assert not [name for name in result if name.startswith("TRUEMEM_")]
    elif starts((), values):
        others = {*values}
    assert {name: result[name] for name in others} == {name: values[name] for name in others}


@given(one_of_ours, variables, wanted, variables)
def test_whatever_is_left_the_function_starts(
    held: tuple[str, ...], values: dict[str, str], asked: dict[str, str], others: dict[str, str]
) -> None:
    assume(CHAINED_WRAPPER not in others or others[CHAINED_WRAPPER] != EXACT_WRAPPER)
    record = attached((held, values), OURS[1], asked)
    back, _ = change_back(record, tuple(arn for arn in record.layers[1] if not is_ours(arn)), others)
    assert starts(back.layers[1], variables_after(others, back)) or EXACT_WRAPPER in (
        values.get(CHAINED_WRAPPER),
        asked.get(CHAINED_WRAPPER),
    )


def test_upgrade_after_another_layer_goes_back_to_the_first() -> None:
    first = Change(((OURS[0],), (OURS[1],)), {})
    added = (OURS[1], OTHERS[0])
    newest = OURS[1].replace(":2", ":3")
    second = Change((added, (newest, OTHERS[0])), {})
    assert joined_record(first, second).layers[0] == (OURS[0], OTHERS[0])


def test_a_function_that_was_made_anew_has_a_record_of_its_own() -> None:
    name = "TRUEMEM_AGGREGATE"
    old = Change(((), (OURS[0],)), {name: ("30", "60")})
    new = Change(((), (OURS[0],)), {WRAPPER: (None, EXACT_WRAPPER)})
    assert joined_record(old, new) == new
