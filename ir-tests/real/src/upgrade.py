#!/usr/bin/env python3
"""upgrade.py DUMP OUT.clif NAME=FUNCID... [import:NAME=FUNCID...]: some functions of a cranelift-jit log as a CLIF file of today.

A log has numbers where a file needs names: `NAME=FUNCID` picks a function and names it, `import:NAME=FUNCID` names what is only
called. Data objects are named by the order in which functions refer to them, which the line `;; symbols` of the dump tells;
lines that begin with `; data:` are copied.

Opcodes that are gone: `global_value` is `symbol_value`; `stack_load` and `stack_store` are a `stack_addr` and a plain access.
"""
import pathlib
import re
import sys


def sections(dump):
    """Function text by id."""
    parts = re.split(r"^;; function funcid(\d+)\n", dump, flags=re.M)
    found = {}
    for number, text in zip(map(int, parts[1::2]), parts[2::2]):
        function = text[: text.index("\n}") + 3]
        # Some frontends start a new module, and so a new numbering, for each function: the second is counted from 1000.
        while number in found:
            number += 1000
        found[number] = function
    return found


def upgrade(text, name, module, names, symbols):
    def callee(match):
        number = int(match[3])
        return f"{match[1]}{match[2] or ''}%{names.get(module + number) or names[number]}"

    text = re.sub(r"^function \S+?\(", f"function %{name}(", text)
    text = re.sub(r"(fn\d+ = )(colocated )?u0:(\d+)", callee, text)
    text = re.sub(r"userextname(\d+)", lambda m: f"%{symbols[int(m[1])]}", text)
    text = text.replace("global_value", "symbol_value")
    fresh = 1 + max(int(v) for v in re.findall(r"\bv(\d+)\b", text))

    def address(slot):
        nonlocal fresh
        fresh += 1
        slot, _, offset = slot.partition("+")
        return f"v{fresh - 1}", f"    v{fresh - 1} = stack_addr.i64 {slot}{'+' + offset if offset else ''}\n"

    def load(match):
        pointer, line = address(match[3])
        return f"{line}    {match[1]} = load.{match[2]} notrap aligned {pointer}"

    def store(match):
        pointer, line = address(match[3])
        return f"{line}    store{match[1] or ''} notrap aligned {match[2]}, {pointer}"

    text = re.sub(r"^    (v\d+) = stack_load\.(\w+) (ss\d+(?:\+\d+)?)", load, text, flags=re.M)
    return re.sub(r"^    stack_store(\.\w+)? (v\d+), (ss\d+(?:\+\d+)?)", store, text, flags=re.M)


def main():
    dump, out, *specs = sys.argv[1:]
    dump = pathlib.Path(dump).read_text()
    texts, kept, names = sections(dump), {}, {}
    for spec in specs:
        name, number = spec.rsplit("=", 1)
        if not name.startswith("import:"):
            kept[name] = int(number)
        names[int(number)] = name.removeprefix("import:")
    symbols = next((line.split()[2:] for line in dump.splitlines() if line.startswith(";; symbols")), [])
    data = [line for line in dump.splitlines() if line.startswith("; data:")]
    parts = ["\n".join(data) + "\n"] if data else []
    parts += [upgrade(texts[number], name, number // 1000 * 1000, names, symbols) for name, number in kept.items()]
    pathlib.Path(out).write_text("\n".join(parts))


main()
