"""Which functions are found in a project, how they are built, and which events they get."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from truemem_workbench.aws.event_log import is_event
from truemem_workbench.init import sample_events, tree
from truemem_workbench.init.found import Build, Found, Source
from truemem_workbench.init.handlers import in_go, in_java, in_node, in_python
from truemem_workbench.init.pipeline import Gate, gitlab
from truemem_workbench.init.plan import plan
from truemem_workbench.init.repository import cis, files_of
from truemem_workbench.init.search import find
from truemem_workbench.local import BadInput

from tests.init.test_init import HEALTHY, SERVICE, TEMPLATE, project

NODE = "exports.handler = async (event) => event;\n"
SAM_TS = """
Resources:
  It:
    Type: AWS::Serverless::Function
    Properties: {CodeUri: src, Handler: app.handler, Runtime: nodejs22.x, FunctionUrlConfig: {AuthType: NONE}}
    Metadata: {BuildMethod: esbuild, BuildProperties: {EntryPoints: [app.ts]}}
"""
CDK = """{"Resources": {"It": {"Type": "AWS::Lambda::Function", "Metadata": {"aws:asset:path": "asset.1"},
"Properties": {"Handler": "app.handler", "Runtime": "python3.12"}}}}"""
OUTSIDE = " '--external:aws-sdk' '--external:@aws-sdk/*' --outbase=."
JAVA = """
Resources:
  It:
    Type: AWS::Serverless::Function
    Properties: {CodeUri: it, Handler: "com.example.App::handle", Runtime: java17, MemorySize: 512}
"""
JAVA_SOURCE = "package com.example;\n\npublic class App {\n    public String handle(String it) {\n"
BUNDLED = """
service: it
plugins: [serverless-esbuild]
provider: {name: aws, runtime: nodejs20.x}
functions: {it: {handler: src/it.main}}
"""
TSC = BUNDLED.replace("plugins: [serverless-esbuild]", "").replace("src/it", "dist/it")
OF_TSC = {
    "package_dot_json": '{"scripts": {"build": "tsc"}, "devDependencies": {"typescript": "5"}}',
    "tsconfig_dot_json": '{"compilerOptions": {"outDir": "dist"}}',
    "src__it_dot_ts": "export const main = 1;\n",
}
QUIET = " --no-audit --no-fund --no-package-lock"


@pytest.mark.parametrize(
    ("files", "targets", "commands"),
    [
        ({"app_dot_py": HEALTHY, "tests__test_app_dot_py": HEALTHY}, ["app.py:handler"], []),
        ({"a__app_dot_py": HEALTHY, "b__app_dot_py": HEALTHY}, ["a/app.py:handler", "b/app.py:handler"], []),
        ({"index_dot_mjs": NODE, "node_modules__x__index_dot_mjs": NODE}, ["index.mjs:handler"], []),
        (
            {"src__app_dot_py": HEALTHY, "requirements_dot_txt": "no-such-package==1"},
            ["src/app.py:handler"],
            ["python3 -m venv .venv && .venv/bin/pip install -q boto3 -r requirements.txt"],
        ),
        (
            {"app_dot_py": HEALTHY, "pyproject_dot_toml": '[project]\ndependencies = ["no-such-package>=1"]'},
            ["app.py:handler"],
            ["python3 -m venv .venv && .venv/bin/pip install -q boto3 'no-such-package>=1'"],
        ),
        (
            {"index_dot_js": NODE, "package_dot_json": '{"dependencies": {"x": "1"}}', "package-lock_dot_json": "{}"},
            ["index.js:handler"],
            ["npm ci --no-audit --no-fund"],
        ),
        (
            {
                "src__app_dot_ts": "export const handler = async (event: object) => event;\n",
                "package_dot_json": '{"scripts": {"build": "tsc"}, "devDependencies": {"typescript": "5"}}',
            },
            ["src/app.ts:handler"],
            ["npm install --no-audit --no-fund --no-package-lock", "npm run build"],
        ),
        (
            {"main_dot_go": "package main\n\nfunc main() {\n\tlambda.Start(nil)\n}\n", "go_dot_mod": "module it\n"},
            ["main.go"],
            ["go build -o bootstrap ."],
        ),
        ({"template_dot_yaml": TEMPLATE}, ["template.yaml:Orders", "template.yaml:Bills"], []),
        (
            {"template_dot_yaml": SAM_TS, "src__app_dot_ts": "export const handler = 1;\n"},
            ["template.yaml:It"],
            [f"(cd src && npx --yes esbuild app.ts --bundle --platform=node --sourcemap{OUTSIDE} --outdir=.)"],
        ),
        ({"serverless_dot_yml": SERVICE, "src__app_dot_py": HEALTHY}, ["serverless.yml:orders"], []),
        (
            {"serverless_dot_yml": BUNDLED, "src__it_dot_ts": "export const main = 1;\n"},
            ["serverless.yml:it"],
            [f"npx --yes esbuild src/it.ts --bundle --platform=node --sourcemap{OUTSIDE} --outdir=.esbuild/.build"],
        ),
        (
            {
                "template_dot_yaml": JAVA,
                "it__pom_dot_xml": "<project><artifactId>a</artifactId><version>1</version></project>",
                "it__src__main__java__com__example__App_dot_java": JAVA_SOURCE,
            },
            ["it/src/main/java/com/example/App.java:handle"],
            ["(cd it && mvn -q package)"],
        ),
        ({"serverless_dot_yml": TSC, **OF_TSC}, ["serverless.yml:it"], [f"npm install{QUIET}", "npm run build"]),
        (
            {"serverless_dot_yml": TSC, **OF_TSC, "dist__it_dot_js": NODE},
            ["serverless.yml:it"],
            [f"npm install{QUIET}", "npm run build"],
        ),
        ({"cdk_dot_out__it_dot_template_dot_json": CDK}, ["cdk.out/it.template.json:It"], []),
        ({"a__template_dot_yaml": CDK.replace("AWS::Lambda::F", "AWS::Serverless::F")}, ["a/template.yaml:It"], []),
    ],
)  # fmt: skip
def test_functions_are_found_with_what_builds_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], targets: list[str], commands: list[str]
) -> None:
    monkeypatch.chdir(project(tmp_path, **files))
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    found = find(".").found
    assert [each.target for each in found] == targets
    builds = [build for each in found for build in each.builds]
    assert [build.command for build in builds] == commands
    assert [not build.again for build in builds] == [" install " in each or " ci " in each for each in commands]


def test_what_is_typed_after_an_edit_begins_with_the_build() -> None:
    builds = (Build("npm ci", Path("a b")), Build("npm run build", Path("a b"), again=True))
    assert Found(name="it", target="a b/it.ts:handler", language="nodejs", builds=builds).rebuild == (
        "(cd 'a b' && npm run build) && "
    )


IN_GO = BUNDLED.replace("nodejs20.x", "provided.al2023, memorySize: 256").replace("src/it.main", "bootstrap")
OF_GO = {
    "go_dot_mod": "module it\n",
    "cmd__it__main_dot_go": "package main\n\nfunc main() { serve() }\n",
    "cmd__it__rt_dot_go": 'package main\n\nvar at = os.Getenv("AWS_LAMBDA_RUNTIME_API")\n',
    "store__store_dot_go": "package store\n",
}


def test_of_a_go_module_the_programs_below_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def found(folder: str, **files: str) -> list[tuple[str, str, list[str], tuple[tuple[str, str], ...]]]:
        monkeypatch.chdir(project(tmp_path / folder, **OF_GO, **files))
        return [(each.name, each.target, [it.command for it in each.builds], each.options) for each in find(".").found]

    made = "it", "cmd/it/main.go", ["go build -o cmd/it/bootstrap ./cmd/it"]
    assert found("sources") == [(*made, ())]
    assert found("template", serverless_dot_yml=IN_GO) == [(*made, (("--memory", "256"), ("--timeout", "6")))]
    others = {f"cmd__{name}__main_dot_go": OF_GO["cmd__it__main_dot_go"] for name in "ab"}
    assert [each[:3] for each in found("named", serverless_dot_yml=IN_GO, **others)] == [made]
    with pytest.raises(BadInput, match=r"any of these programs in Go: cmd/a, cmd/b.*Try truemem init cmd/a$"):
        found("unnamed", serverless_dot_yml=IN_GO.replace("{it:", "{z:"), **others)


STACK = """
Parameters: {Stage: {Type: String, Default: dev}, Key: {Type: String}}
Globals: {Function: {Environment: {Variables: {TABLE: !Ref Table, LEVEL: !Ref Stage}}}}
Resources:
  It:
    Type: AWS::Serverless::Function
    Properties:
      {Handler: app.handler, Runtime: python3.12, Environment: {Variables: {
        QUEUE: !GetAtt Orders.QueueUrl, LIST: !Join [",", [a]], KEY: !Ref Key, PLAIN: x,
        AT: !Sub "https://${Api}.${AWS::Region}/${Stage}", KNOWN: !Sub "${Stage}-1"}}}
"""


def test_a_name_stands_for_what_only_a_stack_knows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project(tmp_path, template_dot_yaml=STACK, app_dot_py=HEALTHY))
    (found,) = find(".").found
    assert dict(value.split("=", 1) for _, value in found.options) == {
        "TABLE": "Table", "QUEUE": "Orders", "LIST": "LIST", "KEY": "Key", "AT": "https://Api.us-east-1/dev",
    }  # fmt: skip


def test_what_is_built_and_not_older_is_not_built_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project(tmp_path, template_dot_yaml=SAM_TS, src__app_dot_ts="export const handler = 1;\n"))
    assert [each.is_needed for each in plan(".", None, None, None).builds] == [True]
    project(tmp_path, src__app_dot_js=NODE)
    assert plan(".", None, None, None).builds == []
    project(tmp_path, _dot_aws_sam__x="")
    built = tmp_path / ".aws-sam/build/template.yaml"
    built.parent.mkdir(parents=True)
    built.write_text(SAM_TS)
    (found,) = find(".").found
    assert (found.target, [each.command for each in found.builds]) == (".aws-sam/build/template.yaml:It", ["sam build"])


def test_handlers_are_told_from_other_functions() -> None:
    assert in_python("def lambda_handler(event, context): ...\ndef other(event, context): ...") == ["lambda_handler"]
    assert in_python("def orders(event, _context): ...\ndef helper(a, b): ...") == ["orders"]
    assert in_python("handler = Mangum(app)\n") == ["handler"]
    assert in_python("def handler(event, context:\n") == in_python("# handler\n") == []
    assert in_node("export const handler = async () => 1;") == ["handler"]
    assert in_node("export async function handler(event: E): Promise<R> {}") == ["handler"]
    assert in_node("module.exports.create = async (event) => {};\nexports.limit = 3;") == ["create"]
    assert in_node("module.exports = { handler, other };") == in_node("export { main as handler };") == ["handler"]
    assert in_node("// exports.handler = async (event) => 1;") == []
    assert in_go("package main\nfunc main() {\n\tlambda.Start(handle)\n}") and not in_go("package main\n")
    assert in_java("public class App implements RequestHandler<A, B> {") and not in_java("class App {")


@pytest.mark.parametrize("kind", sample_events.SAMPLES)
def test_a_sample_is_an_event_of_aws_with_its_own_id(kind: str) -> None:
    events = sample_events.events_for([Source(kind, {"path": "/orders/{id}", "method": "post"})])
    assert len(events) == sample_events.COUNT
    assert all(isinstance(each, dict) and is_event(each) for each in events), events[0]


def test_a_request_has_the_path_and_its_parameters() -> None:
    details = {"path": "/orders/{id}/{proxy+}", "method": "post"}
    first: object = sample_events.events_for([Source("Api", details)])[0]
    assert isinstance(first, dict)
    assert (first["path"], first["httpMethod"]) == ("/orders/id-1/id-1", "POST")
    assert first["pathParameters"] == {"id": "id-1", "proxy": "id-1"}
    assert json.loads(first["body"])["id"] == "id-1"


def test_several_sources_take_turns_and_own_events_stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project(tmp_path, serverless_dot_yml=SERVICE, src__app_dot_py=HEALTHY))
    first, second, *_ = map(json.loads, plan(".", None, None, None).files[0].text.splitlines())
    assert (first["version"], second["Records"][0]["eventSource"]) == ("2.0", "aws:sqs")
    own = {"events__one_dot_json": '{"id": "x", "of": {"requestId": "y"}}'}
    monkeypatch.chdir(project(tmp_path / "own", app_dot_py=HEALTHY, **own))
    first, second, *_ = plan(".", None, None, None).files[0].text.splitlines()
    assert (first, second) == ('{"id": "x", "of": {"requestId": "y"}}', '{"id": "x-1", "of": {"requestId": "y-1"}}')
    monkeypatch.chdir(project(tmp_path / "other", serverless_dot_yml=SERVICE, src__app_dot_py=HEALTHY, **own))
    assert '"version": "2.0"' in plan(".", None, None, None).files[0].text  # what it gets has another shape


def test_a_search_has_its_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "MOST_FILES", 3)
    project(tmp_path, **{f"f{n}_dot_py": "" for n in range(5)})
    found = tree.tree(tmp_path)
    assert (len(found.files), found.is_whole) == (3, False)
    deep = project(tmp_path / "deep", **{"__".join("abcdefghijkl"): "", "a__b__near": ""})
    assert [path.name for path in tree.tree(deep).files] == ["near"]


def test_the_ci_is_the_one_that_the_repository_shows(tmp_path: Path) -> None:
    assert cis(tmp_path) == ["github"]
    project(tmp_path, _dot_git__config="[remote]\n\turl = git@gitlab.example.com:us/it.git\n")
    assert cis(tmp_path) == ["gitlab"]
    (tmp_path / ".github").mkdir()
    assert cis(tmp_path) == ["github", "gitlab"]


def test_beside_a_gitlab_ci_the_job_is_to_be_included(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project(tmp_path, main_dot_py=HEALTHY, _dot_gitlab_ci_dot_yml=""))
    (tmp_path / ".gitlab-ci.yml").write_text("stages: [lint, checks]\nlint: {script: [!reference [a, b]]}\n")
    found = find(".").found
    gate = Gate(checks=[(found[0], found[0].check(Path("e.jsonl")))], install="")
    file, by_hand = files_of("gitlab", gate, Path())
    assert (str(file.path), by_hand) == (
        "memory.gitlab-ci.yml", "add to .gitlab-ci.yml: include: [{local: memory.gitlab-ci.yml}]",
    )  # fmt: skip
    assert "  stage: checks\n" in file.text
    assert gitlab(gate).count("stage:") == 0
    both = Gate(
        checks=[*gate.checks, (replace(found[0], language="nodejs", version="22"), gate.checks[0][1])], install=""
    )
    jobs = yaml.safe_load(gitlab(both))
    assert {name: job["image"] for name, job in jobs.items()} == {
        "memory-python": "python:3.13", "memory-nodejs": "node:22",
    }  # fmt: skip
    (tmp_path / ".gitlab-ci.yml").write_text(gitlab(gate))
    assert files_of("gitlab", gate, Path())[0].state == "same"
    other = Gate(checks=gate.checks, install="", folder=Path("orders"), name="memory-orders")
    assert str(files_of("gitlab", other, Path())[0].path) == "memory-orders.gitlab-ci.yml"
