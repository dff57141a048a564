"""Captured trees (`proc_trees.txt`), unpacked into a folder for the readers to be rooted at; `exe`, `fd/N` as links."""

from pathlib import Path

ARCHIVE = Path(__file__).with_name("proc_trees.txt")


def unpack(name: str, into: Path) -> Path:
    """Write the files of the tree `name` below `into`. Raises KeyError if there is no such tree."""
    trees = ("\n" + ARCHIVE.read_text()).split("\n=== ")[1:]
    tree = {tree.partition("\n")[0].strip(): tree for tree in trees}[name]
    for part in ("\n" + tree.partition("\n")[2]).split("\n--- ")[1:]:
        path, _, content = part.partition("\n")
        target = into / path.strip()
        target.parent.mkdir(parents=True, exist_ok=True)
        content = content.rstrip("\n")
        if target.name == "exe" or target.parent.name == "fd":
            target.symlink_to(content)
            continue
        text = content.replace("\\0", "\0") if target.name in ("environ", "cmdline") else content + "\n" * bool(content)
        target.write_text(text)
    return into
