#!/bin/sh
# builds both ways. $1: node_modules with esbuild, TypeScript and the types of Node.js
cd "$(dirname "$0")"
"$1/.bin/esbuild" src/app.ts --bundle --minify --sourcemap --format=esm --platform=node --outfile=dist-esbuild/app.mjs --log-level=warning
"$1/.bin/tsc" -p . --typeRoots "$1/@types"
