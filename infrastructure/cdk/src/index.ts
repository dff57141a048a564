import { Annotations, IAspect, Stack, Token } from 'aws-cdk-lib';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import { Construct, IConstruct } from 'constructs';
import { plan, Plan } from './plan';

/** Where the layer comes from: ARNs, or a folder of zips. An ARN is preferred to the folder's zip. */
export interface TruememLayerProps {
  /**
   * ARN of the layer version for x86_64.
   *
   * @default - the zip in layerFolder; without one, functions of x86_64 are refused
   */
  readonly x86Arn?: string;

  /**
   * ARN of the layer version for arm64.
   *
   * @default - the zip in layerFolder; without one, functions of arm64 are refused
   */
  readonly armArn?: string;

  /**
   * Folder with truemem-layer-x86_64.zip and truemem-layer-arm64.zip, as `make layer` leaves them. Both are published
   * with the stack.
   *
   * @default - nothing is published
   */
  readonly layerFolder?: string;
}

/** How a function is measured. */
export interface TruememOptions {
  /**
   * Exact mode: the runtime starts through the layer's wrapper. Another wrapper that the function has is started first.
   *
   * @default false
   */
  readonly exact?: boolean;

  /**
   * Settings of the sidecar: `{ aggregate: '60' }` is the variable TRUEMEM_AGGREGATE. A variable that the function has
   * already keeps its value, with a warning.
   *
   * @default - those of the sidecar
   */
  readonly settings?: { [name: string]: string };
}

/** Which functions TruememEverywhere attaches, and how they are measured. */
export interface TruememEverywhereOptions extends TruememOptions {
  /**
   * Constructs that are left as they are, with everything inside them.
   *
   * @default - none
   */
  readonly exclude?: IConstruct[];
}

/** The layer, for each architecture. */
export class TruememLayer extends Construct {
  private readonly versions: { [architecture: string]: lambda.ILayerVersion } = {};

  /** Throws an error if there is neither an ARN nor a folder, or if the folder lacks a zip. */
  constructor(scope: Construct, id: string, props: TruememLayerProps) {
    super(scope, id);
    for (const [architecture, arn] of Object.entries({ x86_64: props.x86Arn, arm64: props.armArn })) {
      if (arn) {
        // Not fromLayerVersionArn: its layer is refused by functions of a runtime that this CDK does not know.
        this.versions[architecture] = lambda.LayerVersion.fromLayerVersionAttributes(this, architecture, {
          layerVersionArn: arn,
        });
      } else if (props.layerFolder) {
        this.versions[architecture] = new lambda.LayerVersion(this, architecture, {
          layerVersionName: `truemem-${architecture}`,
          description: 'True memory telemetry',
          license: 'Apache-2.0',
          code: lambda.Code.fromAsset(`${props.layerFolder}/truemem-layer-${architecture}.zip`),
          compatibleArchitectures: [lambda.Architecture.custom(architecture)],
        });
      }
    }
    if (Object.keys(this.versions).length === 0) {
      throw new Error(`${this.node.path}: there is no layer. Give x86Arn and armArn, or layerFolder`);
    }
  }

  /**
   * Attach the layer to one function. Throws an error with the reason if the function has it already, cannot take it,
   * or is to run in exact mode and cannot.
   */
  public attach(target: lambda.Function, options: TruememOptions = {}): void {
    const resource = target.node.defaultChild as lambda.CfnFunction;
    const made = this._plan(resource, options);
    const reason = made.refused ?? made.notExact;
    if (reason) throw new Error(`${target.node.path}: ${reason}`);
    this._carryOut(resource, made);
  }

  /** @internal */
  public _plan(resource: lambda.CfnFunction, options: TruememOptions): Plan {
    const stack = Stack.of(resource);
    const version = this.versions[architectureOf(resource)];
    const described = {
      image: stack.resolve(resource.packageType) === 'Image',
      runtime: stack.resolve(resource.runtime),
      region: Token.isUnresolved(stack.region) ? undefined : stack.region,
      layers: layersOf(resource),
      variables: variablesOf(resource),
    };
    const arn = version && stack.resolve(version.layerVersionArn);
    return plan(described, arn, options.exact ?? false, options.settings ?? {});
  }

  /** @internal */
  public _carryOut(resource: lambda.CfnFunction, made: Plan): void {
    const version = this.versions[architectureOf(resource)];
    for (const name of made.kept) {
      Annotations.of(resource).addWarningV2('truemem:kept', `truemem: ${name} keeps the value that it has`);
    }
    const owner = resource.node.scope;
    if (owner instanceof lambda.Function) {
      owner.addLayers(version);
      for (const [name, value] of Object.entries(made.variables)) owner.addEnvironment(name, Token.asString(value));
    } else {
      resource.layers = [...(resource.layers ?? []), version.layerVersionArn];
      const variables = { ...variablesOf(resource), ...made.variables };
      if (Object.keys(variables).length > 0) resource.environment = { variables };
    }
  }
}

/**
 * Attaches the layer to every Lambda function of a scope: `Aspects.of(app).add(new TruememEverywhere(layer))`. A
 * function that cannot take it stays as it is, with a warning. One that has it already is left, with a note.
 */
export class TruememEverywhere implements IAspect {
  private readonly seen = new Set<IConstruct>();

  constructor(private readonly layer: TruememLayer, private readonly options: TruememEverywhereOptions = {}) {}

  public visit(node: IConstruct): void {
    // An application may be synthesized twice, in tests for example.
    if (!(node instanceof lambda.CfnFunction) || this.seen.has(node)) return;
    this.seen.add(node);
    if (node.node.scopes.some((scope) => this.options.exclude?.includes(scope))) return;
    const made = this.layer._plan(node, this.options);
    const say = Annotations.of(node);
    if (made.already) return say.addInfo(`truemem: ${made.refused}`);
    if (made.refused) return say.addWarningV2('truemem:refused', `truemem is not attached: ${made.refused}`);
    if (made.notExact) say.addWarningV2('truemem:not-exact', `truemem without exact mode: ${made.notExact}`);
    this.layer._carryOut(node, made);
  }
}

/** An array, unless they are known only at deployment. */
function layersOf(resource: lambda.CfnFunction): any {
  const stack = Stack.of(resource);
  // An array in some releases of CDK. In these, resolving resource.layers would fix the list for good (Lazy.list).
  const listed = (resource.node.scope as any)?._layers;
  if (Array.isArray(listed)) return listed.map((layer) => stack.resolve(layer.layerVersionArn));
  return stack.resolve(resource.layers) ?? [];
}

/** By their names, unless they are known only at deployment: then an object such as { 'Fn::If': [...] }. */
function variablesOf(resource: lambda.CfnFunction): any {
  const environment = Stack.of(resource).resolve(resource.environment) ?? {};
  return environment.variables ?? environment;
}

function architectureOf(resource: lambda.CfnFunction): string {
  return (Stack.of(resource).resolve(resource.architectures) ?? ['x86_64'])[0];
}
