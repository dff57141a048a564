"""What a user has open in an editor, in TypeScript, Go or Java: what was built of it runs, or the build is named."""

import json
import os
from pathlib import Path

import pytest
from truemem_workbench.local import BadInput
from truemem_workbench.target.go_program import BUILT
from truemem_workbench.target.resolve import resolve
from truemem_workbench.target.sources import build_of

TS = "import { S3 } from './s3';\n\nexport const lambdaHandler = async () => 'done';\n"
GO = "package main\n\nfunc main() {}\n"
JAVA = """package com.example;

public class App implements RequestHandler<Map<String, Object>, String> {
    @Override
    public String handleRequest(Map<String, Object> event, Context context) {
        return "done";
    }
}
"""
POM = """<project>
  <parent><artifactId>parent</artifactId><version>7</version></parent>
  <artifactId>orders</artifactId>
  <version>1.2</version>
  <dependencies><dependency><artifactId>other</artifactId></dependency></dependencies>
</project>
"""
CLASS = "src/main/java/com/example/App.java"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(files: dict[str, str], age_s: float = 0) -> None:
    """Files of the present folder, which were written so many seconds before this."""
    for name, text in files.items():
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
        os.utime(path, (2_000_000_000 - age_s,) * 2)


def package(build: str, **more: object) -> str:
    return json.dumps({"scripts": {"build": build}, **more})


@pytest.mark.parametrize(
    ("files", "output"),
    [
        ({"tsconfig.json": '{"compilerOptions": {"outDir": "./made", /* all */ "rootDir": "src",}}'}, "made/index.js"),
        ({"tsconfig.json": '{"extends": "./base"}', "base.json": '{"compilerOptions": {"outDir": "o"}}'}, "o/index.js"),
        ({"tsconfig.json": '{"compilerOptions": {"outDir": "o"}} // of src and test'}, "o/src/index.js"),
        ({"package.json": package("tsc --noEmit && esbuild src/*.ts --bundle --outdir=x")}, "x/index.js"),
        ({"package.json": package("esbuild src/index.ts --outfile=x/app.mjs --format=esm")}, "x/app.mjs"),
        ({"package.json": package("node build.mjs")}, "dist/index.cjs"),
        ({}, "src/index.js"),
    ],
)
@pytest.mark.usefixtures("project")
def test_a_typescript_handler_runs_as_what_was_built(files: dict[str, str], output: str) -> None:
    write({**files, "src/index.ts": TS, "src/s3.ts": ""}, age_s=10)
    write({output: "exports.lambdaHandler = async () => 'done'"})
    made = resolve("src/index.ts:lambdaHandler")
    assert made.function.task_root / made.function.handler == Path(output).resolve().with_suffix(".lambdaHandler")
    assert (made.spec, made.source, made.line) == ("src/index.ts:lambdaHandler", Path("src/index.ts"), 3)
    assert made.notices == (f"src/index.ts runs as {output}:lambdaHandler, which is not older",)

    os.utime("src/s3.ts", (2_000_000_001,) * 2)  # a checkout writes all files at once
    assert resolve("src/index.ts:lambdaHandler")
    os.utime("src/s3.ts", (2_000_000_009,) * 2)  # a file beside it, which the handler imports
    with pytest.raises(BadInput, match=rf"is newer than {output}\. Try .+ again; or {output}:lambdaHandler as it is$"):
        resolve("src/index.ts:lambdaHandler")


TEMPLATE = """
Transform: AWS::Serverless-2016-10-31
Resources:
  Orders:
    Type: AWS::Serverless::Function
    Properties: {CodeUri: CODE, Handler: app.lambdaHandler, Runtime: nodejs20.x, MemorySize: 320}
    Metadata:
      BuildMethod: esbuild
"""


@pytest.mark.usefixtures("project")
def test_a_function_that_sam_has_built_has_its_settings() -> None:
    write({"template.yaml": TEMPLATE.replace("CODE", "fn"), "fn/package.json": "{}", "fn/app.ts": TS}, age_s=10)
    assert build_of("fn/app.ts:lambdaHandler").command == "sam build"  # type: ignore[union-attr]
    with pytest.raises(BadInput, match=r"Try sam build && truemem check fn/app\.ts:lambdaHandler$"):
        resolve("template.yaml:Orders")
    write({".aws-sam/build/template.yaml": TEMPLATE.replace("CODE", "Orders"), ".aws-sam/build/Orders/app.js": ""})
    made = resolve("fn/app.ts:lambdaHandler")
    assert (made.memory_mib, made.function.handler) == (320, "app.lambdaHandler")
    assert made.notices[0] == "fn/app.ts runs as .aws-sam/build/template.yaml:Orders, which is not older"


GO_FILES = {
    "go.mod": "module x",
    "cmd/fn/main.go": GO,
    "cmd/fn/helper.go": "package main\n",
    "lib/lib.go": "package lib",
}
NPM = {"src/a.ts": TS, "node_modules/x": ""}


@pytest.mark.parametrize(
    ("files", "spec", "then"),
    [
        ({**NPM, "package.json": package("x")}, "src/a.ts:h", "npm run build && truemem check src/a.ts:h"),
        ({"src/a.ts": TS, "yarn.lock": "", "package.json": package("x", devDependencies={"typescript": "5"})},
         "src/a.ts:h", "yarn install && yarn run build && truemem check src/a.ts:h"),
        ({**NPM, "tsconfig.json": "{}", "package.json": package("x").replace("build", "test")}, "src/a.ts:h",
         "npx --yes -p typescript tsc && truemem check src/a.ts:h"),
        ({**NPM, "tsconfig.json": '{"compilerOptions": {"noEmit": true}}'}, "src/a.ts:h",
         "npx --yes esbuild src/a.ts --bundle --platform=node --sourcemap --outdir=dist && truemem check src/a.ts:h"),
        ({"src/a.ts": TS}, "src/a.ts:h",
         "npx --yes esbuild src/a.ts --bundle --platform=node --sourcemap --outdir=dist && truemem check src/a.ts:h"),
        ({"fn/a.ts": TS, "fn/package.json": package("x")}, "fn/a.ts:h",
         "(cd fn && npm run build) && truemem check fn/a.ts:h"),
        ({"src/a.ts": TS}, "src/a.ts", "src/a.ts:lambdaHandler"),
        ({"src/a.ts": "export { x, one as theHandler } from './b';"}, "src/a.ts", "src/a.ts:theHandler"),
        ({"go.mod": "module x", "main.go": GO}, "main.go", "go build -o bootstrap . && truemem check ./bootstrap"),
        ({"go.mod": "module x", "main.go": GO}, ".", "go build -o bootstrap . && truemem check ./bootstrap"),
        (GO_FILES, "cmd/fn/main.go", "go build -o cmd/fn/bootstrap ./cmd/fn && truemem check cmd/fn/bootstrap"),
        (GO_FILES, "cmd/fn", "go build -o cmd/fn/bootstrap ./cmd/fn && truemem check cmd/fn/bootstrap"),
        (GO_FILES, ".", "truemem check cmd/fn"),
        ({"a b/go.mod": "module x", "a b/main.go": GO}, "a b/main.go",
         "(cd 'a b' && go build -o bootstrap .) && truemem check 'a b/bootstrap'"),
        ({"pom.xml": POM, CLASS: JAVA}, CLASS,
         "mvn -q package && truemem check target/orders-1.2.jar:com.example.App::handleRequest"),
        ({"pom.xml": POM, "mvnw": "", CLASS: JAVA}, ".",
         "./mvnw -q package && truemem check target/orders-1.2.jar:com.example.App::handleRequest"),
        ({"build.gradle": "", "build/libs/x.jar": "", "build/libs/x-plain.jar": " ", CLASS: JAVA}, f"{CLASS}:other",
         "gradle -q build, then this command again; or build/libs/x.jar:com.example.App::other as it is"),
        ({"App.java": JAVA}, "App.java", "truemem check PATH.jar:CLASS::METHOD"),
        ({}, "src/a.ts:h", "PATH/a.ts"),
        ({"template.yaml": TEMPLATE.replace("CODE", "."), **NPM, "package.json": package("x")}, "template.yaml:Orders",
         "npm run build, then this command again"),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("project")
def test_a_source_that_is_not_built_names_its_build(files: dict[str, str], spec: str, then: str) -> None:
    write({name: text for name, text in files.items() if name.endswith(".jar")}, age_s=10)
    write({name: text for name, text in files.items() if not name.endswith(".jar")})
    with pytest.raises(BadInput) as problem:
        resolve(spec)
    assert str(problem.value).rpartition("Try ")[2] == then


@pytest.mark.usefixtures("project")
def test_a_program_in_go_that_is_built_runs() -> None:
    write(GO_FILES, age_s=10)
    write({"cmd/fn/bootstrap": ""})
    Path("cmd/fn/bootstrap").write_bytes(BUILT)
    os.utime("cmd/fn/bootstrap", (2_000_000_000,) * 2)
    for spec in ("cmd/fn", "cmd/fn/main.go"):
        made = resolve(spec)
        assert made.function.command == (str(Path("cmd/fn/bootstrap").resolve()),)
        assert made.function.once_built("truemem check cmd/fn").startswith("go build -o cmd/fn/bootstrap ./cmd/fn && ")
        assert (made.source, made.notices[0][:37]) == (Path("cmd/fn/main.go"), "cmd/fn/main.go runs as cmd/fn/bootstr")


IN_GO = TEMPLATE.replace("nodejs20.x", "provided.al2023")
TSC = {"tsconfig.json": '{"compilerOptions": {"outDir": "dist"}}', "package.json": package("tsc"), "src/app.ts": TS}
ESBUILD = (
    "npx --yes esbuild src/app.ts --bundle --platform=node --sourcemap '--external:aws-sdk' '--external:@aws-sdk/*'"
    " --outbase=. --outdir=.esbuild/.build"
)
BUNDLED = """
plugins: [serverless-esbuild]
provider: {name: aws, runtime: nodejs20.x}
functions: {Orders: {handler: src/app.lambdaHandler}}
"""


@pytest.mark.parametrize(
    ("files", "output", "command"),
    [
        ({"template.yaml": IN_GO.replace("CODE", "cmd/fn"), **GO_FILES}, "cmd/fn/bootstrap",
         "go build -o cmd/fn/bootstrap ./cmd/fn"),
        ({"template.yaml": TEMPLATE.replace("CODE", "dist"), **TSC}, "dist/app.js", "npm run build"),
        ({"template.yaml": TEMPLATE.replace("CODE", ".").replace("app.l", "dist/app.l"), **TSC}, "dist/app.js",
         "npm run build"),
        ({"template.yaml": TEMPLATE.replace("CODE", "src"), "src/app.ts": TS}, "src/app.js",
         f"(cd src && {ESBUILD.replace('src/', '').replace('.esbuild/.build', '.')})"),
        ({"template.yaml": BUNDLED, "src/app.ts": TS}, ".esbuild/.build/src/app.js", ESBUILD),
        ({"template.yaml": BUNDLED, "src/app.js": TS}, ".esbuild/.build/src/app.js", ESBUILD.replace(".ts", ".js")),
        ({"template.yaml": TEMPLATE.replace("CODE", "fn"), "fn/app.ts": TS,
          ".aws-sam/build/Orders/app.js": ""}, ".aws-sam/build/template.yaml", "sam build"),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("project")
def test_a_template_runs_no_build_older_than_its_source(files: dict[str, str], output: str, command: str) -> None:
    write(files, age_s=10)
    write({output: TEMPLATE.replace("CODE", "Orders") if output.endswith("yaml") else ""})
    if output.endswith("bootstrap"):
        Path(output).write_bytes(BUILT)
        os.utime(output, (2_000_000_000,) * 2)
    spec = f"{output if output.endswith('yaml') else 'template.yaml'}:Orders"
    assert resolve(spec).function.once_built("it") == f"{command} && it"
    source = next(name for name in files if name.endswith(("app.ts", "app.js", "main.go")))
    os.utime(source, (2_000_000_009,) * 2)
    with pytest.raises(BadInput) as problem:
        resolve(spec)
    assert str(problem.value) == f"{source} is newer than {output}. Try {command}, then this command again"


@pytest.mark.parametrize("spec", ["app.py:handler", "index.mjs:handler", "bootstrap", "template.yaml:It", ".", "lib"])
@pytest.mark.usefixtures("project")
def test_what_runs_as_it_is_names_no_build(spec: str) -> None:
    write({"app.py": "", "index.mjs": "", "bootstrap": "", "template.yaml": "", "lib/util.go": "package util"})
    assert build_of(spec) is None
