#!/bin/sh
# Builds src/ as its users do. What it makes is in git: tests need no network.
set -e
here="$(cd "$(dirname "$0")" && pwd)"
work="$(mktemp -d)"
cp -r "$here/src" "$work"
cd "$work"
echo '{"private": true}' > package.json
npm install --silent esbuild@0.28.2 typescript@5.9.3 @swc/core@1.16.22 @swc/cli@0.8.1 webpack@5.113.0 webpack-cli@7.3.1 swc-loader@0.2.7
cat > .swcrc << 'END'
{"jsc": {"parser": {"syntax": "typescript"}, "target": "es2022", "minify": {"compress": true, "mangle": true}},
 "module": {"type": "commonjs"}, "minify": true, "sourceMaps": true}
END
cat > webpack.config.js << 'END'
module.exports = {
  mode: "production", target: "node", devtool: "source-map", entry: "./src/index.ts", resolve: { extensions: [".ts"] },
  module: { rules: [{ test: /\.ts$/, loader: "swc-loader", options: { jsc: { parser: { syntax: "typescript" } } } }] },
  output: { path: __dirname + "/webpack", filename: "index.js", library: { type: "commonjs2" } },
};
END
npx esbuild src/index.ts --bundle --platform=node --minify --sourcemap --outfile=esbuild/index.js
npx esbuild src/index.ts --bundle --platform=node --minify --sourcemap=inline --outfile=inline/index.js
npx tsc --outDir tsc --rootDir src --module commonjs --target es2022 --sourceMap src/index.ts
npx swc src --strip-leading-paths --out-dir swc
npx webpack
for name in esbuild inline tsc swc webpack; do rm -rf "${here:?}/$name"; cp -r "$name" "$here"; done
rm -rf "$work"
