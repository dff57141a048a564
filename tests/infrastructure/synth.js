// node synth.js < scenario: an application with these functions. Prints what becomes of each, and what is said of it.
const { App, Aspects, Stack, Token } = require('aws-cdk-lib');
const { Annotations, Match, Template } = require('aws-cdk-lib/assertions');
const { Repository } = require('aws-cdk-lib/aws-ecr');
const lambda = require('aws-cdk-lib/aws-lambda');
const { Bucket } = require('aws-cdk-lib/aws-s3');
const { TruememEverywhere, TruememLayer } = require('truemem-cdk');

const { layer, functions, attach, everywhere, region } = JSON.parse(require('fs').readFileSync(0, 'utf8'));
const app = new App();
const env = region && { account: '123456789012', region };
const stacks = { Stack: new Stack(app, 'Stack', { env }), Other: new Stack(app, 'Other', { env }) };

function make(id, { kind, stack = 'Stack', runtime = 'python3.13', architecture, layers = [], environment }) {
  const scope = stacks[stack];
  const variables = environment && Object.fromEntries(
    Object.entries(environment).map(([name, value]) => [name, Token.asString(value)]));
  const common = { functionName: id, environment: variables };
  if (kind === 'image') {
    const code = lambda.DockerImageCode.fromEcr(Repository.fromRepositoryName(scope, `${id}Images`, 'images'));
    return new lambda.DockerImageFunction(scope, id, { ...common, code });
  }
  if (kind === 'CfnFunction') {
    const code = { s3Bucket: 'bucket', s3Key: 'key' };
    const role = 'arn:aws:iam::123456789012:role/role';
    const plain = { functionName: id, runtime, handler: 'app.handler', code, role, layers };
    const architectures = architecture && [architecture];
    const given = environment?.['Fn::If'] ? Token.asAny(environment) : variables && { variables };
    return new lambda.CfnFunction(scope, id, { ...plain, architectures, environment: given });
  }
  const imported = layers.map((layerVersionArn, at) =>
    lambda.LayerVersion.fromLayerVersionAttributes(scope, `${id}${at}`, { layerVersionArn }));
  return new lambda.Function(scope, id, {
    ...common,
    runtime: new lambda.Runtime(runtime),
    handler: 'app.handler',
    architecture: architecture && lambda.Architecture.custom(architecture),
    code: lambda.Code.fromBucket(Bucket.fromBucketName(scope, `${id}Code`, 'bucket'), 'key'),
    layers: imported,
  });
}

const truemem = new TruememLayer(stacks.Stack, 'Truemem', layer);
const made = Object.fromEntries(Object.entries(functions).map(([id, described]) => [id, make(id, described)]));
for (const [id, options] of Object.entries(attach ?? {})) truemem.attach(made[id], options);
if (everywhere) {
  const exclude = (everywhere.exclude ?? []).map((id) => made[id]);
  Aspects.of(app).add(new TruememEverywhere(truemem, { ...everywhere, exclude }));
}

const result = { functions: {}, said: {}, layers: [] };
for (const stack of Object.values(stacks)) {
  const template = Template.fromStack(stack);
  for (const { Properties } of Object.values(template.findResources('AWS::Lambda::Function'))) {
    result.functions[Properties.FunctionName] = [Properties.Layers ?? [], Properties.Environment?.Variables ?? {}];
  }
  const published = Object.values(template.findResources('AWS::Lambda::LayerVersion'));
  result.layers.push(...published.map(({ Properties }) => Properties));
  const annotations = Annotations.fromStack(stack);
  const said = [annotations.findWarning('*', Match.anyValue()), annotations.findInfo('*', Match.anyValue())];
  for (const { id, level, entry } of said.flat()) {
    (result.said[id.split('/')[2]] ??= []).push(`${level}: ${entry.data}`);
  }
}
console.log(JSON.stringify(result));
