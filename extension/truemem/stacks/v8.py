"""Layouts and tables of V8, by version. Pure.

Offsets in bytes on 64 bits without compressed pointers, as Node.js builds V8 (the `v8dbg_` symbols of its program have
most of them), and the numbers of types. V8 changes neither within a major version of Node.js. A program that was built
otherwise fails a check of node.py, and has no stack.
"""

from __future__ import annotations

from ..support.named_tuple import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

HEAP_OBJECT = 1
"""Low bits of a reference; those of a number are 0."""
ANONYMOUS = "<anonymous>"
KIND = 15
"""Mask of a code's kind, in its flags."""
INLINED_AT, OFFSET_BITS = 31, (1 << 30) - 1
"""A position: 1 bit (of no script), 30 bits (1 more than the character), 16 bits (which inlined call, 0 for none)."""
WIDE, EXTRA_WIDE = (0, 2), (1, 3)
"""Bytecodes before one whose operands have twice or four times the bytes."""


class Layout(NamedTuple):
    """Offsets of one version of V8."""

    isolate: int
    exit_frame: int
    called: int
    """Places of ThreadLocalTop's isolate_, c_entry_fp_ and c_function_ in Isolate."""
    interrupts: tuple[tuple[int, int], ...]
    """Where Isolate has the addresses of functions that interrupt JavaScript (Runtime_CompileOptimizedOSR,
    Runtime_BytecodeBudgetInterrupt, Runtime_StackGuard and their like), and how many there: a collection in one of them
    is no allocation's."""
    shared: int
    """shared_function_info in JSFunction."""
    name: int
    script: int
    """name_or_scope_info, script in SharedFunctionInfo."""
    bytecode: int
    bytecode_table: int
    """Its bytes, and source_position_table, in BytecodeArray."""
    code_table: int
    deopt: int
    flags: int
    size: int
    """source_position_table, deoptimization_data, flags, instruction_size in Code."""
    safepoints: int
    """Bytes before the number of entries in the table of safepoints."""
    header: int
    """From an InstructionStream to its instructions."""
    variables: int
    """Word of a ScopeInfo from which on it has its variables."""
    literals: int
    inlined: int
    """Elements of DeoptimizationData with what was inlined, and where."""
    byte_types: tuple[int, ...]
    """Types of arrays of bytes."""
    baseline: int
    """Kind of Sparkplug's code. After it: Maglev's, TurboFan's."""
    functions: tuple[int, int]
    shared_type: int
    script_type: int
    scope_type: int
    code_type: int
    bytecode_type: int
    """Types: JSFunction (first and last), SharedFunctionInfo, Script, ScopeInfo, Code, BytecodeArray."""
    sizes: str
    wide: str
    """Bytes of each bytecode, hexadecimal, and of those after WIDE (Bytecodes::kBytecodeSizes)."""


# fmt: off
LAYOUTS = {
    b"11.3": Layout(  # Node.js 20
        272, 384, 400, ((13928, 3), (14792, 6), (14944, 2)), 24, 16, 32, 54, 32, 24, 16, 48, 56, 0, 16, 4, 2, 7,
        (190,), 11, (2066, 2080), 262, 167, 261, 245, 191,
        "1111123455621211111244222322211123334224424434433344454533333333333333333333333322221112224554565345556445"
        "53333333322221541241434233331114222222222222222222222242335211112112454412211111111111111111",
        "11111357979313111113773335333111255573377377477555777878555555555555555555555555333311133379979b9579979669"
        "95555555533331761361656355551117333333333333333333333373559311113113797713311111111111111111",
    ),
    b"12.4": Layout(  # Node.js 22
        368, 272, 280, ((14672, 4), (15552, 6), (15712, 3)), 32, 16, 32, 64, 24, 16, 8, 48, 52, 0, 32, 4, 2, 7,
        (186, 212), 10, (2066, 2082), 274, 167, 272, 206, 205,
        "1111123455621211111244222322211123334242244244344353344454533333333333333333333333322221112224554565345556"
        "4455333333333122211541241434233331114222222222222222222222242335211112112454412211111111111111111",
        "11111357979313111113773335333111255573733773774775955777878555555555555555555555555333311133379979b9579979"
        "6699555555555133311761361656355551117333333333333333333333373559311113113797713311111111111111111",
    ),
    b"13.6": Layout(  # Node.js 24
        416, 320, 328, ((17632, 4), (17752, 4), (18688, 6), (18816, 3)), 32, 24, 40, 64, 24, 16, 8, 52, 56, 4, 32,
        6, 3, 8, (217, 196), 10, (2065, 2081), 282, 167, 280, 187, 186,
        "1111123455621211111244422223222111233342422444244434435334445453333333333333333333333332222112222455456534"
        "555644553333333331222115412414342333311142222222222422222222222244235211112112454412211111111111111111",
        "111113579793131111137773333533311125557373377737774775955777878555555555555555555555555333311333379979b957"
        "997966995555555551333117613616563555511173333333333733333333333377359311113113797713311111111111111111",
    ),
}
# fmt: on


def position(table: bytes, at: int) -> tuple[int, int]:
    """The position of the instruction that `at` bytes lie after the first, and where the entry begins that says so:
    (0, -1) where there is none. `table`: source_position_table of bytecode or of optimized code
    (codegen/source-position-table.cc): pairs of signed numbers of 7 bits in each byte, the differences to the entry
    before."""
    code, said, found = -1, 0, (0, -1)
    numbers = _signed(table)
    for step in numbers:
        code += step if step >= 0 else -step - 1
        if code > at:
            break
        said += next(numbers, 0)
        found = said, code
    return found


def script_offset(said: int) -> int:
    """The character of the script that a position names, from 0 on; -1 where it names none."""
    return (said >> 1 & OFFSET_BITS) - 1 if not said & 1 else -1


def can_deoptimize(table: bytes, at: int) -> bool | None:
    """Whether the call that returns to this byte of TurboFan's code has a state to which the code can be left: such a
    call has a position. None where it is no call. `table`: of safepoints, from the number of its entries on
    (codegen/safepoint-table.h)."""
    count, flags = (int.from_bytes(table[begin : begin + 4], "little") for begin in (0, 4))
    registers, instruction, state = flags >> 1 & 7, flags >> 4 & 7, flags >> 7 & 7
    size = instruction + registers + (state + instruction if flags & 1 else 0)
    for begin in range(8, min(8 + count * size, len(table) - size + 1), max(size, 1)):
        if int.from_bytes(table[begin : begin + instruction], "little") == at:
            return flags & 1 > 0 and any(table[begin + instruction : begin + instruction + state])
    return None


def bytecode_at(table: bytes, bytecodes: bytes, layout: Layout, at: int) -> int:
    """Offset of the bytecode whose code of Sparkplug's has the byte `at`; -1 where that is not known. `table`: how many
    bytes the code before the first one has, then that of each (baseline/bytecode-offset-iterator.h)."""
    begin = end = 0
    offset = -1
    for length in _numbers(table):
        end += length
        if end > at:
            return offset if begin <= at else -1
        begin = end
        offset = 0 if offset < 0 else offset + _size(bytecodes, offset, layout)
        if offset >= len(bytecodes):
            break
    return -1


def _size(bytecodes: bytes, at: int, layout: Layout) -> int:
    """Bytes of the bytecode that begins there; so many that none follows, if there is no such one."""
    scale, sizes = bytecodes[at], layout.sizes
    prefixed = scale in WIDE or scale in EXTRA_WIDE
    which = bytecodes[at + 1] if prefixed and at + 1 < len(bytecodes) else scale
    if which >= len(sizes):
        return len(bytecodes)
    size = int(sizes[which], 16)
    if prefixed:
        wide = int(layout.wide[which], 16)
        return 1 + (wide if scale in WIDE else 3 * wide - 2 * size)
    return size


def _signed(table: bytes) -> Iterator[int]:
    return (number >> 1 ^ -(number & 1) for number in _numbers(table))


def _numbers(table: bytes) -> Iterator[int]:
    """Numbers of 7 bits in each byte, the lowest first; the last byte of each is below 128."""
    value = shift = 0
    for byte in table:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            yield value
            value = shift = 0
