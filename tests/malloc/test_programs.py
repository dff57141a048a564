"""malloc's lists of real programs, read from outside, are what the program itself says (mallinfo2(3))."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil
import pytest
from truemem import arenas

from testing import installs

CPP = """
#include <malloc.h>
#include <cstdio>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>
int main() {
  printf(" "); // its buffer is malloc's too
  std::vector<std::string> kept;
  for (int n = 0; n < 20000; n++) kept.push_back(std::string(20 + n % 300, 'x'));
  for (int n = 0; n < 10000; n += 2) kept[n] = std::string();
  std::vector<char> large(5000000, 1);
  std::thread([&] { for (int n = 0; n < 1000; n++) kept.push_back(std::string(50, 'y')); }).join();
  struct mallinfo2 said = mallinfo2();
  printf("%zu %zu %zu\\n", said.uordblks, said.fordblks, said.hblkhd);
  fflush(stdout);
  pause();
  return kept.size() + large[3];
}
"""
RUST = """
#[repr(C)]
struct Said { arena: usize, ordblks: usize, smblks: usize, hblks: usize, hblkhd: usize, usmblks: usize, fsmblks: usize,
              uordblks: usize, fordblks: usize, keepcost: usize }
extern "C" { fn mallinfo2() -> Said; }
fn main() {
    print!(" "); // its buffer is malloc's too
    let mut kept: Vec<String> = (0..20000).map(|n| "x".repeat(20 + n % 300)).collect();
    for n in (0..10000).step_by(2) { kept[n] = String::new(); }
    let large = vec![1u8; 5_000_000];
    let said = unsafe { mallinfo2() };
    println!("{} {} {}", said.uordblks, said.fordblks, said.hblkhd);
    std::thread::sleep(std::time::Duration::from_secs(100));
    println!("{}", kept.len() + large[3] as usize);
}
"""
RUBY = """
require "fiddle"
kept = Array.new(20_000) { |n| "x" * (20 + n % 300) }
said = Fiddle::Pointer.malloc(80)
mallinfo2 = Fiddle::Function.new(Fiddle.dlopen(nil)["mallinfo2"], [Fiddle::TYPE_VOIDP], Fiddle::TYPE_VOIDP)
mallinfo2.call(said) # the structure's place is the first argument, on x86-64
figures = said[0, 80].unpack("Q10")
puts [figures[7], figures[8], figures[4]].join(" ")
$stdout.flush
sleep
"""
NEAR_BYTES = 64 << 10
"""What threads keep in their caches, and what printing takes."""
Made = Callable[[Path], list[str]]


def compiled(source: str, name: str, *command: str) -> Made:
    def make(folder: Path) -> list[str]:
        if shutil.which(command[0]) is None:
            raise installs.Missing(f"there is no {command[0]}")
        (folder / name).write_text(source)
        subprocess.run([*command, str(folder / name), "-o", str(folder / "program")], check=True, capture_output=True)
        return [str(folder / "program")]

    return make


def in_ruby(folder: Path) -> list[str]:
    if os.uname().machine != "x86_64":
        raise installs.Missing("Fiddle cannot have the structure here")
    return [*installs.ruby(), "-e", RUBY]


PROGRAMS: dict[str, Made] = {
    "C++": compiled(CPP, "main.cpp", "g++", "-O1", "-pthread"),
    "Rust": compiled(RUST, "main.rs", "rustc", "-O"),
    "Ruby": in_ruby,
}


def said_and_read(command: Sequence[str], **variables: str) -> tuple[list[int], arenas.Malloc]:
    """What the program says of what is in use, held and mapped, and what is read from outside when it sleeps. Raises
    ValueError where that cannot be read."""
    with subprocess.Popen(command, stdin=-1, stdout=-1, env=os.environ | variables) as process:
        try:
            assert process.stdout
            said = [int(each) for each in process.stdout.readline().split()]
            until = time.monotonic() + 10
            while psutil.Process(process.pid).status() != psutil.STATUS_SLEEPING:
                assert time.monotonic() < until
                time.sleep(0.01)
            return said, arenas.read(process.pid)
        finally:
            process.kill()


@pytest.fixture(params=PROGRAMS)
def command(request: pytest.FixtureRequest, tmp_path: Path) -> list[str]:
    try:
        return PROGRAMS[request.param](tmp_path)
    except installs.Missing as missing:
        pytest.skip(str(missing))


def test_it_is_what_the_program_says_itself(command: list[str]) -> None:
    (in_use, held, mapped), found = said_and_read(command)
    assert in_use > 2 << 20
    assert found.in_use == pytest.approx(in_use, abs=NEAR_BYTES)
    assert found.held == pytest.approx(held, abs=NEAR_BYTES)
    assert found.mapped == mapped


def test_under_another_malloc_there_is_no_figure(command: list[str]) -> None:
    try:
        library = next((installs.debian_package("libjemalloc2") / "usr" / "lib").glob("*/libjemalloc.so.2"))
    except installs.Missing as missing:
        pytest.skip(str(missing))
    with pytest.raises(ValueError, match="it is not known what is mapped"):
        said_and_read(command, LD_PRELOAD=str(library))


def test_all_that_php_holds_is_beside_malloc() -> None:
    asked = "$kept = array_fill(0, 9, 0); foreach ($kept as &$each) $each = str_repeat('x', 1000000); echo 0, PHP_EOL;"
    try:
        command = [*installs.php(), "-r", f"{asked} sleep(100);"]
    except installs.Missing as missing:
        pytest.skip(str(missing))
    _, found = said_and_read(command)
    assert 0 < found.in_use + found.mapped < 6 << 20
