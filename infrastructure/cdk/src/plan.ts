/** Pure: from what a function's template says to what is added to it, or why nothing is. */

export const WRAPPER = '/opt/truemem/exact';
const MOST_LAYERS = 5;

/** A function as its template has it. What is known only at deployment is an object such as { Ref: 'Name' }. */
export interface Described {
  readonly image: boolean;
  readonly runtime: any;
  /** undefined in a stack that fits any region. */
  readonly region?: string;
  readonly layers: any;
  readonly variables: any;
}

export interface Plan {
  /** Why the layer is not added. */
  readonly refused?: string;
  /** True if the reason is that truemem is there already. */
  readonly already?: boolean;
  /** Why it is added without exact mode. */
  readonly notExact?: string;
  /** Environment variables to add. */
  readonly variables: { [name: string]: any };
  /** Those that were asked for and have another value already. */
  readonly kept: string[];
}

/** `arn` is that of the layer version for the function's architecture, or undefined if there is none. */
export function plan(described: Described, arn: any, exact: boolean, settings: { [name: string]: string }): Plan {
  const present = described.variables;
  const wanted = Object.fromEntries(Object.entries(settings).map(([name, value]) => [variable(name), value]));
  const kept = Object.keys(wanted).filter((name) => name in present && present[name] !== wanted[name]);
  const variables = Object.fromEntries(Object.entries(wanted).filter(([name]) => !(name in present)));
  const notExact = exact ? withoutExact(described.runtime, { ...wanted, ...present }) : undefined;
  if (exact && !notExact) {
    const other = present.AWS_LAMBDA_EXEC_WRAPPER;
    if (other !== undefined && other !== WRAPPER) variables.TRUEMEM_EXEC_WRAPPER = other;
    variables.AWS_LAMBDA_EXEC_WRAPPER = WRAPPER;
  }
  return { ...refusal(described, arn), notExact, variables, kept };
}

function refusal({ image, layers, region, variables }: Described, arn: any): { refused?: string; already?: boolean } {
  if (image) return { refused: 'a container image takes no layers. Copy the files into the image' };
  if (!Array.isArray(layers) || 'Fn::If' in variables || 'Ref' in variables) {
    return { refused: 'its layers or variables are known only at deployment. Add the layer in its own definition' };
  }
  if (layers.some((layer) => same(layer, arn) || JSON.stringify(layer).includes(':layer:truemem-'))) {
    return { refused: 'it has the layer already', already: true };
  }
  if (!arn) return { refused: 'there is no layer for its architecture. Give both ARNs, or layerFolder' };
  if (layers.length >= MOST_LAYERS) return { refused: `it has ${MOST_LAYERS} layers, and Lambda permits no more` };
  const place = typeof arn === 'string' ? arn.split(':')[3] : undefined;
  if (place && region && place !== region) {
    return { refused: `the layer is in ${place}, the function in ${region}. Give the ARN of that region` };
  }
  return {};
}

function withoutExact(runtime: any, variables: { [name: string]: any }): string | undefined {
  if (typeof runtime !== 'string') return 'its runtime is known only at deployment';
  if (runtime.startsWith('provided')) {
    return `${runtime} ignores AWS_LAMBDA_EXEC_WRAPPER. Start its program by ${WRAPPER}`;
  }
  const wrapper = variables.AWS_LAMBDA_EXEC_WRAPPER ?? WRAPPER;
  const chained = variables.TRUEMEM_EXEC_WRAPPER ?? wrapper;
  if (!same(wrapper, WRAPPER) && !same(chained, wrapper)) {
    return 'it has two wrappers: AWS_LAMBDA_EXEC_WRAPPER and TRUEMEM_EXEC_WRAPPER. Keep one';
  }
  return undefined;
}

function variable(name: string): string {
  return `TRUEMEM_${name.toUpperCase().replace(/^TRUEMEM_/, '')}`;
}

function same(one: any, other: any): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}
