"""Pages and compiled templates."""

import linecache


def page(rows):
    return "<ul>" + "".join(f"<li>{row}</li>" for row in rows) + "</ul>"


# python-attrs/attrs#828, sympy/sympy#27232: source lines of generated code stay
def compiled(n, repaired):
    name = f"<template {n % 4 if repaired else n}>"
    source = "def show(order):\n" + "".join(f"    a{i} = order + {n + i}\n" for i in range(90))
    space = {}
    exec(compile(source, name, "exec"), space)
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)  # LEAK template_lines
    space["show"](n)
    space.clear()  # the function and its globals are a cycle
    return name
