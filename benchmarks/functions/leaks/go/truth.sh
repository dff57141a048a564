#!/bin/sh
# name leak KiB-per-call twin KiB-per-call: heap and stacks after collection; resident memory where C keeps it
cd "$(dirname "$0")"
for name in $(grep -oE '// LEAK [a-z_]+' main.go | awk '{print $3}' | sort -u); do
  case $name in branch_name) column=2;; *) column=1;; esac
  run() { env LEAK=$name $1 ./bootstrap 200 2>/dev/null | cut -d' ' -f$column; }
  echo "$name leak $(run REPAIRED=0) twin $(run REPAIRED=1)"
done
