#!/usr/bin/env python3
"""Elaborates a SystemRDL file with systemrdl-compiler and prints its registers as JSON.

    map.py FILE    -> {"path": {"offset", "bytes", "fields": {name: [low, high, access, reset, hardware, storage]}}, ...}

One entry for every register of every block and array; a reset is null where none is given, `hardware` is what it does to
the field, and `storage` says whether a register block has a flip-flop for it.
"""

import json
import sys

from systemrdl import RDLCompiler
from systemrdl.node import RegNode
from systemrdl.rdltypes import OnWriteType


def access(field):
    """RO, RW, WO or W1C."""
    if field.get_property("onwrite") == OnWriteType.woclr:
        return "W1C"
    return {(True, True): "RW", (True, False): "RO", (False, True): "WO"}[
        (field.is_sw_readable, field.is_sw_writable)
    ]


def hardware(field):
    """`r`, `w`, `rw` or `na`, and how it writes."""
    how = [name for name in ("we", "wel", "hwset", "hwclr") if field.get_property(name)]
    return " ".join([field.get_property("hw").name, *how])


def register(node):
    return {
        "offset": node.absolute_address,
        "bytes": node.size,
        "fields": {
            field.inst_name: [
                field.low,
                field.high,
                access(field),
                field.get_property("reset"),
                hardware(field),
                field.implements_storage,
            ]
            for field in node.fields()
        },
    }


def main():
    compiler = RDLCompiler()
    compiler.compile_file(sys.argv[1])
    top = compiler.elaborate().top
    nodes = (node for node in top.descendants(unroll=True) if isinstance(node, RegNode))
    print(json.dumps({node.get_rel_path(top): register(node) for node in nodes}))


if __name__ == "__main__":
    main()
