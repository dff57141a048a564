#!/bin/sh
# name leak KiB-per-call twin KiB-per-call: heap after collection + direct buffers + metaspace; resident memory where it is native
cd "$(dirname "$0")"
for name in $(grep -rhoE '// LEAK [a-z_]+' --include=*.java . | awk '{print $3}' | sort -u); do
  case $name in codec_pool|worker_pool) column=2;; *) column=1;; esac
  run() { env LEAK=$name $1 "${JAVA_HOME:-/usr}/bin/java" -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xms96m -Xmx96m -XX:+AlwaysPreTouch -cp . App 200 2>/dev/null | cut -d' ' -f$column; }
  echo "$name leak $(run REPAIRED=0) twin $(run REPAIRED=1)"
done
