"""Mutations of JSON and YAML: of the text, and of the tree that it stands for."""

import json

import yaml
from fuzz_bytes import changed

VALUES = (None, True, False, 0, -1, 1.5, 2**31, 2**63, -(2**64), 10**400, 1e308, "", "x", "\0", "é")
VALUES += ("\ud800", "\udce9", "a/b", "../x", "NaN", "auto", [], {}, [[]], {"": None}, ["x"] * 50)
RAW = (b"NaN", b"Infinity", b"-0", b"1e999", b"[" * 5000, b'{"a":' * 3000, b'"\\ud800"')
RAW += (b"9" * 5000,)
YAML = (b"&a [*a]", b"!!python/object:os.system x", b"2024-99-99", b"0x_", b"!!binary x", b"? [a]")
YAML += (b"<<: *a", b"%TAG ! x", b"---", b"\t- a", b"190:99:99", b"&a {b: &b [&c [c, c], *c]}")
YAML += (b"- - - - -" * 400, b"1_0", b".inf", b"!!timestamp x", b"!!float _", b"*x", b"|9\n x")


def of_lines(draw, seeds):
    """Documents of one JSON value a line: each changed by itself, moved, torn."""
    if draw.random() < 0.3:
        return changed(draw, draw.choice(seeds), seeds)
    lines = draw.choice(seeds).split(b"\n")
    for _ in range(draw.choice((1, 1, 2))):
        at = draw.randrange(len(lines))
        lines[at] = of_json(draw, [lines[at]])
        if draw.random() < 0.1:
            lines.insert(at, draw.choice(lines))
    return b"\n".join(lines)


def of_json(draw, seeds):
    """A JSON document."""
    data = draw.choice(seeds)
    if draw.random() < 0.3:
        return _with_raw(draw, changed(draw, data, seeds), RAW)
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError):
        return changed(draw, data, seeds)
    return _with_raw(draw, json.dumps(_tree(draw, tree)).encode(), RAW)


def of_yaml(draw, seeds):
    """A YAML document."""
    data = draw.choice(seeds)
    if draw.random() < 0.4:
        return _with_raw(draw, changed(draw, data, seeds), RAW + YAML)
    tree = _tree(draw, yaml.safe_load(data))
    text = json.dumps(tree) if draw.random() < 0.5 else yaml.safe_dump(tree)
    return _with_raw(draw, text.encode("utf-8", "surrogatepass"), YAML)


def _with_raw(draw, data, pieces):
    """Sometimes a value that no tree can hold, in the place of another one."""
    if draw.random() < 0.8:
        return data
    piece, ends = draw.choice(pieces), [at for at, byte in enumerate(data) if byte in b":[,\n"]
    at = draw.choice(ends) + 1 if ends else 0
    end = next((end for end in ends if end >= at), at)
    return data[:at] + b" " + piece + data[end:]


def _tree(draw, tree):
    for _ in range(draw.choice((1, 1, 2, 3))):
        tree = _change(draw, tree)
    return tree


def _change(draw, tree):
    """The tree with one value, key or branch changed, somewhere."""
    if draw.random() < 0.2 or not isinstance(tree, (dict, list)) or not tree:
        return _value(draw, tree)
    keys = list(tree) if isinstance(tree, dict) else range(len(tree))
    key = draw.choice(keys)
    tree, kind = (dict if isinstance(tree, dict) else list)(tree), draw.random()
    if kind < 0.7:
        tree[key] = _change(draw, tree[key])
    elif kind < 0.85:
        del tree[key]
    elif isinstance(tree, dict):
        tree[draw.choice((*keys, "", "x", "extra", "\ud800"))] = tree[key]
    else:
        tree.insert(draw.randrange(len(tree) + 1), tree[key])
    return tree


def _value(draw, old):
    kind = draw.random()
    if kind < 0.1:
        for _ in range(draw.choice((1, 5, 100))):
            old = [old] if draw.random() < 0.5 else {"a": old}
        return old
    if kind < 0.2 and isinstance(old, int):
        return old + draw.choice((-1, 1))
    if kind < 0.3:
        return str(old)
    return draw.choice(VALUES)
