#!/bin/sh
# truth.sh ./dist-esbuild/app.mjs: name leak KiB-per-call twin KiB-per-call, by V8's heap and external memory after collection
cd "$(dirname "$0")"
for name in $(grep -rhoE '// LEAK [a-z0-9_]+' src | sort -u | cut -d' ' -f3); do
  a=$(LEAK=$name ${NODE:-node} --expose-gc truth_one.mjs $1); b=$(LEAK=$name REPAIRED=1 ${NODE:-node} --expose-gc truth_one.mjs $1)
  echo "$name leak $a twin $b"
done
