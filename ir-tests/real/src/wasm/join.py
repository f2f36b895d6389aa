#!/usr/bin/env python3
"""join.py MODULE.wasm DIR OUT.clif EXPORT...: one self-contained CLIF file from what wasm-to-clif wrote to DIR.

The emitted functions are kept as they are, except for their `stack_limit` line, and only those which the exports reach. Wasmtime
hands every function a pointer to the instance (the vmctx), in which it finds the address of the linear memory, the mutable
globals and the imported functions. So each export gets a function `%run_EXPORT(memory, bytes, arguments...)` which builds such an
instance in a stack slot and calls the export; each import gets a shim in Wasmtime's convention which calls the C function.

The offsets (Wasmtime 48.0.8, 64-bit): +8 store context (its stack limit at +24), +56 memory address, +64 memory length, import i at
72 + 32 i (code at +8, callee's vmctx at +24), and the stack pointer global where the functions themselves say it is.
The stack of the wasm module grows down from `bytes`, the end of the memory.

A function table is an array of pointers, whose lowest bit says that they have been set, to records of code (+8), type (+16) and
vmctx (+24). The emitted code compares the type with an entry of the instance's array of types and takes a cold path to
Wasmtime where the bit is not set; it always is here, so that path ends in a trap.
"""
import pathlib
import re
import sys

REFERENCE_SIZE, REFERENCE_CODE, REFERENCE_TYPE, REFERENCE_VMCTX = 32, 8, 16, 24
TYPE_ID = 7  # any number will do
TABLE, TYPE_IDS = "VMTableDefinition+0x0", "VMContext+0x28"
LAZY_TABLE = """\
function u805306368:7(i64 vmctx, i32, i64) -> i64 tail {
block0(v0: i64, v1: i32, v2: i64):
    trap user11
}
"""

IMPORT_BASE, IMPORT_SIZE, IMPORT_CODE, IMPORT_VMCTX = 72, 32, 8, 24
STORE_CONTEXT, MEMORY_ADDRESS, MEMORY_LENGTH, STACK_LIMIT = 8, 56, 64, 24

# Shims for the memory functions of C, which take wasm addresses: relative to the memory of the vmctx, which is the callee's.
MEMORY_SHIMS = {
    "memcpy": """\
function %imp_memcpy(i64 vmctx, i64, i32, i32, i32) -> i32 tail {
    fn0 = %memcpy(i64, i64, i64) -> i64 system_v

block0(v0: i64, v1: i64, v2: i32, v3: i32, v4: i32):
    v5 = load.i64 notrap aligned readonly v0+56
    v6 = uextend.i64 v2
    v7 = iadd v5, v6
    v8 = uextend.i64 v3
    v9 = iadd v5, v8
    v10 = uextend.i64 v4
    ; What is copied is doubles: in a shim that nothing else says it in, a load does.
    v12 = load.f64 little v9
    v11 = call fn0(v7, v9, v10)
    return v2
}
""",
}


class Wasm:
    """What we need of a module: names of function imports, indices of exported functions, and the table's function indices."""

    def __init__(self, data):
        self.data, self.at = data, 8
        self.imports, self.exports, self.table = [], {}, {}
        while self.at < len(data):
            section, size = self.data[self.at], None
            self.at += 1
            size = self.leb()
            end = self.at + size
            if section == 2:
                for _ in range(self.leb()):
                    self.name()
                    name, kind = self.name(), self.byte()
                    if kind != 0:
                        raise SystemExit(f"{name}: only functions can be imported")
                    self.leb()
                    self.imports.append(name)
            elif section == 7:
                for _ in range(self.leb()):
                    name, kind, index = self.name(), self.byte(), self.leb()
                    if kind == 0:
                        self.exports[name] = index
            elif section == 9:
                for _ in range(self.leb()):
                    assert self.leb() == 0 and self.byte() == 0x41, "an element segment of the plain kind: i32.const"
                    first, _ = self.leb(), self.byte()
                    self.table |= {first + i: self.leb() for i in range(self.leb())}
            self.at = end

    def byte(self):
        self.at += 1
        return self.data[self.at - 1]

    def leb(self):
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def name(self):
        size = self.leb()
        self.at += size
        return self.data[self.at - size : self.at].decode()


def functions(folder):
    """Text of each emitted function by its number, with the line that names it as a comment."""
    found = {}
    for path in folder.glob("wasm[[]0]--function*.clif"):
        title, text = path.read_text().split("\n", 1)
        # Rust's mangled names say nothing: without the hash and the crate path one still sees what the function is.
        title = re.sub(r"17h[0-9a-f]{16}E", "", title.split("::")[-1].rstrip(">:"))
        number = int(re.match(r"function u0:(\d+)", text).group(1))
        found[number] = f"; {title}\n" + re.sub(r"\n *stack_limit = gv\d+", "", text)
    return found


def reachable(texts, roots):
    seen, todo = set(), list(roots)
    while todo:
        number = todo.pop()
        if number not in seen:
            seen.add(number)
            todo += [int(callee) for callee in re.findall(r"colocated u0:(\d+)", texts[number])]
    return sorted(seen)


def shim(name, signature):
    """The function an import slot points to; `signature` is how the emitted code calls it."""
    if name in MEMORY_SHIMS:
        return MEMORY_SHIMS[name]
    if signature is None:
        raise SystemExit(f"no call shows the signature of {name}")
    params, result = signature
    values = [f"v{i + 2}: {ty}" for i, ty in enumerate(params)]
    arguments = ", ".join(value.split(":")[0] for value in values)
    returned = f"v{len(params) + 2}"
    arrow = f" -> {result}" if result else ""
    return "\n".join([
        f"function %imp_{name}({', '.join(['i64 vmctx', 'i64', *params])}){arrow} tail {{",
        f"    fn0 = %{name}({', '.join(params)}){arrow} system_v",
        "",
        f"block0({', '.join(['v0: i64', 'v1: i64', *values])}):",
        f"    {returned + ' = ' if result else ''}call fn0({arguments})",
        f"    return {returned}" if result else "    return",
        "}",
        "",
    ])


def import_signatures(texts):
    """Parameters (after both vmctx) and result of every import, by number, from the calls in `texts`."""
    found = {}
    for text in texts:
        sigs = {}
        for sig, params, result in re.findall(r"(sig\d+) = \(i64 vmctx, i64,? ?([^)]*)\)(?: -> (\w+))? tail", text):
            sigs[sig] = ([p for p in params.split(", ") if p], result)
        codes = {v: int(offset) for v, offset in re.findall(r"(v\d+) = load\.i64 .* v0\+(\d+)$", text, re.M)}
        for sig, code in re.findall(r"call_indirect(?:\.\w+)? (sig\d+), (v\d+)\(", text):
            if code not in codes:  # a call through a table
                continue
            number, rest = divmod(codes[code] - IMPORT_BASE - IMPORT_CODE, IMPORT_SIZE)
            assert rest == 0, (code, codes[code])
            found[number] = sigs[sig]
    return found


def region_offset(texts, region):
    """The offset from the vmctx at which the functions read the field with this name; None if they do not."""
    found = set()
    for text in texts:
        for name in re.findall(rf'(region\d+) = \d+ "{re.escape(region)}"', text):
            found |= {int(at) for at in re.findall(rf"load\.i64 .* {name} v0\+(\d+)$", text, re.M)}
    assert len(found) <= 1, (region, found)
    return min(found, default=None)


def runner(name, number, header, imports, table, stack_pointer, size):
    """`%run_NAME`: an instance in stack slots and one call. `table`: None, or where the instance keeps the address of its table
    and of its type ids, and the functions by table index (number, parameters and result as text)."""
    params, result = re.match(r"function u0:\d+\(i64 vmctx, i64,? ?([^)]*)\)(?: -> (\w+))? tail", header).groups()
    params = [p for p in params.split(", ") if p]
    arrow = f" -> {result}" if result else ""
    lines = [
        f"function %run_{name}({', '.join(['i64', 'i32', *params])}){arrow} system_v {{",
        f"    ss0 = explicit_slot {size}, align = 16",
        "    ss1 = explicit_slot 32, align = 16",
        f"    fn0 = u0:{number}({', '.join(['i64 vmctx', 'i64', *params])}){arrow} tail",
    ]
    for i, (imported, (kinds, kind)) in enumerate(imports):
        returns = f" -> {kind}" if kind else ""
        lines.append(f"    fn{i + 1} = %imp_{imported}({', '.join(['i64 vmctx', 'i64', *kinds])}){returns} tail")
    if table:
        table_at, types_at, entries = table
        count = max(entries) + 1
        lines += [
            f"    ss2 = explicit_slot {8 * count}, align = 16",
            f"    ss3 = explicit_slot {REFERENCE_SIZE * count}, align = 16",
            "    ss4 = explicit_slot 16, align = 16",
        ]
        for i, (callee, signature) in entries.items():
            lines.append(f"    fn{len(imports) + i} = u0:{callee}({signature} tail")
    lines += ["", f"block0({', '.join(f'v{i}: {ty}' for i, ty in enumerate(['i64', 'i32', *params]))}):"]
    fresh = iter(range(len(params) + 2, 1000))

    def value(text):
        v = f"v{next(fresh)}"
        lines.append(f"    {v} = {text}")
        return v

    def store(what, base, offset, why):
        lines.append(f"    store notrap aligned {what}, {base}+{offset}  ; {why}")

    vmctx, context, zero = value("stack_addr.i64 ss0"), value("stack_addr.i64 ss1"), value("iconst.i64 0")
    store(zero, context, STACK_LIMIT, "stack limit")
    store(context, vmctx, STORE_CONTEXT, "store context")
    store("v0", vmctx, MEMORY_ADDRESS, "memory address")
    store(value("uextend.i64 v1"), vmctx, MEMORY_LENGTH, "memory length")
    for i, (imported, _) in enumerate(imports):
        at = IMPORT_BASE + IMPORT_SIZE * i
        store(value(f"func_addr.i64 fn{i + 1}"), vmctx, at + IMPORT_CODE, f"code of {imported}")
        store(vmctx, vmctx, at + IMPORT_VMCTX, f"vmctx of {imported}")
    if stack_pointer is not None:
        store("v1", vmctx, stack_pointer, "__stack_pointer")
    if table:
        base, records, types = value("stack_addr.i64 ss2"), value("stack_addr.i64 ss3"), value("stack_addr.i64 ss4")
        kind = value(f"iconst.i32 {TYPE_ID}")
        store(base, vmctx, table_at, "table")
        store(types, vmctx, types_at, "type ids")
        store(kind, types, 0, "the only type that is called")
        for i in entries:
            at = REFERENCE_SIZE * i
            store(value(f"func_addr.i64 fn{len(imports) + i}"), records, at + REFERENCE_CODE, f"code of entry {i}")
            store(kind, records, at + REFERENCE_TYPE, "its type")
            store(vmctx, records, at + REFERENCE_VMCTX, "its vmctx")
            store(value(f"iadd {records}, {value(f'iconst.i64 {at + 1}')}"), base, 8 * i, "its address, and the bit for set")
    arguments = ", ".join([vmctx, vmctx, *(f"v{i + 2}" for i in range(len(params)))])
    if result:
        lines.append(f"    return {value(f'call fn0({arguments})')}")
    else:
        lines += [f"    call fn0({arguments})", "    return"]
    return "\n".join([*lines, "}", ""])


def main():
    module, folder, out, *exports = sys.argv[1:]
    wasm = Wasm(pathlib.Path(module).read_bytes())
    texts = functions(pathlib.Path(folder))
    roots = {name: wasm.exports[name] - len(wasm.imports) for name in exports}
    kept = reachable(texts, roots.values())
    table_at = region_offset([texts[number] for number in kept], TABLE)
    entries = {i: index - len(wasm.imports) for i, index in wasm.table.items()} if table_at else {}
    kept = reachable(texts, [*roots.values(), *entries.values()])
    bodies = [texts[number] for number in kept]
    body = "\n".join(bodies)

    # The import section lists what any function uses, so the calls of all of them are needed for the signatures.
    signatures = import_signatures(texts.values())
    signatures |= {i: (["i32"] * 3, "i32") for i, name in enumerate(wasm.imports) if name in MEMORY_SHIMS}
    imports = [(name, signatures[i]) for i, name in enumerate(wasm.imports)]

    globals_at = {int(at) for at in re.findall(r"store notrap aligned region\d+ v\d+, v0\+(\d+)", body)}
    assert len(globals_at) <= 1, globals_at
    stack_pointer = min(globals_at, default=None)

    table, header = None, {number: texts[number].split("\n", 1)[1] for number in kept}
    if table_at:
        callees = {i: (number, re.search(r"\((.*) tail {", header[number]).group(1)) for i, number in entries.items()}
        table = (table_at, region_offset(bodies, TYPE_IDS), callees)
    size = max(IMPORT_BASE + IMPORT_SIZE * len(imports), *((at or 0) + 16 for at in (stack_pointer, table_at)))

    parts = [runner(name, number, header[number], imports, table, stack_pointer, size) for name, number in roots.items()]
    if table:
        parts.append(LAZY_TABLE)
    parts += [shim(name, signature) for name, signature in imports]
    pathlib.Path(out).write_text("\n".join([*parts, body]))


main()
