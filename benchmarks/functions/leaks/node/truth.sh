#!/bin/sh
# name leak KiB-per-call twin KiB-per-call, by V8's heap and external memory after collection. NODE: which node
cd "$(dirname "$0")"
for name in $(grep -rhoE '// LEAK [a-z0-9_]+' app.mjs lib node_modules | sort -u | cut -d' ' -f3); do
  a=$(LEAK=$name ${NODE:-node} --expose-gc truth_one.mjs); b=$(LEAK=$name REPAIRED=1 ${NODE:-node} --expose-gc truth_one.mjs)
  echo "$name leak $a twin $b"
done
