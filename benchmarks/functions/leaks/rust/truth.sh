#!/bin/sh
# KiB of resident memory that each call keeps: a plain loop of 200 calls
cd "$(dirname "$0")"
for name in ${*:-$(sed -n 's/.*("\([a-z_]*\)", \1).*/&/p' src/main.rs | grep -o '"[a-z_]*"' | tr -d '"' | sort)}; do
    echo "$name leak $(LEAK=$name target/release/bootstrap) twin $(LEAK=$name REPAIRED=1 target/release/bootstrap)"
done
