import fc from "fast-check";

/** The tools that random graphs are made of: what each gives for its arguments, as text; undefined where it fails. */
export const randomTools: Record<
  string,
  { properties: Record<string, { type: string }>; give(args: any): string | undefined }
> = {
  plus: { properties: { a: { type: "number" }, b: { type: "number" } }, give: ({ a, b }) => String(a + b) },
  join: { properties: { x: { type: "string" }, y: { type: "string" } }, give: ({ x, y }) => `${x}|${y}`.slice(-60) },
  even: { properties: { n: { type: "number" } }, give: ({ n }) => String(n % 2 === 0) },
  pack: {
    properties: { n: { type: "number" }, s: { type: "string" } },
    give: ({ n, s }) => JSON.stringify({ a: [n, { s }], b: n > 3 }),
  },
  small: { properties: { n: { type: "number" } }, give: ({ n }) => (n > 3 ? undefined : `n is ${n}`) },
};

type Type = "number" | "string" | "boolean" | "object";

/** A graph, and arguments for it. */
export interface RandomGraph {
  graph: any;
  args: Record<string, unknown>;
}

const literals: Record<Type, fc.Arbitrary<unknown>> = {
  number: fc.integer({ min: -9, max: 9 }),
  string: fc.constantFrom("", "a", "{}", "x { y", "b}"),
  boolean: fc.boolean(),
  object: fc.constant({ a: [1, { s: "l" }], b: true }),
};

/** Good graphs whose nodes stand in any order, with the arguments of a call. */
export const randomGraph: fc.Arbitrary<RandomGraph> = fc
  .array(fc.tuple(fc.nat(11), fc.array(fc.nat(), { minLength: 6, maxLength: 6 })), { minLength: 1, maxLength: 14 })
  .chain((plan) =>
    fc.record({
      plan: fc.constant(plan),
      values: fc.record({
        number: fc.array(literals.number, { minLength: 4, maxLength: 4 }),
        string: fc.array(literals.string, { minLength: 4, maxLength: 4 }),
        boolean: fc.array(literals.boolean, { minLength: 4, maxLength: 4 }),
        object: fc.array(literals.object, { minLength: 4, maxLength: 4 }),
      }),
      order: fc.shuffledSubarray(
        plan.map((_, i) => i),
        { minLength: plan.length },
      ),
      args: fc.record({ i: fc.integer({ min: -50, max: 50 }), s: fc.constantFrom("", "s", "{n0}"), b: fc.boolean() }),
      hasDefaults: fc.boolean(),
    }),
  )
  .map(({ plan, values, order, args, hasDefaults }) => build(plan, values, order, args, hasDefaults));

function build(
  plan: [kind: number, picks: number[]][],
  values: Record<Type, unknown[]>,
  order: number[],
  args: Record<string, unknown>,
  hasDefaults: boolean,
): RandomGraph {
  const types: Record<string, Type> = { i: "number", s: "string", b: "boolean" };
  const specs: Record<string, any> = {};
  plan.forEach(([kind, picks], at) => {
    let turn = 0;
    const pick = (): number => picks[turn++ % picks.length]! + turn;
    /** A port that wants a type: something that gives it, or a value. */
    const port = (type: Type): unknown => {
      const givers = Object.keys(types).filter((name) => types[name] === type);
      const n = pick();
      if (type === "string" && n % 3 === 0) return `<{${Object.keys(types)[n % Object.keys(types).length]}}{ {s}`;
      return n % 4 === 0 || givers.length === 0 ? values[type][n % 4] : `{${givers[n % givers.length]}}`;
    };
    const name = `n${at}`;
    const [type, spec] = ((): [Type, any] => {
      switch (kind) {
        case 0:
          return ["number", { value: values.number[0] }];
        case 1:
          return ["string", { text: `{${Object.keys(types)[pick() % Object.keys(types).length]}}, {i}` }];
        case 2:
          return ["number", { tool: "plus", in: { a: port("number"), b: port("number") }, type: "number" }];
        case 3:
          return ["string", { tool: "join", in: { x: port("string"), y: port("string") } }];
        case 4:
          return ["boolean", { tool: "even", in: { n: port("number") }, type: "boolean" }];
        case 5:
          return ["object", { tool: "pack", in: { n: port("number"), s: port("string") }, type: "object" }];
        case 6:
          return ["string", { tool: "small", in: { n: port("number") } }];
        case 7:
          return ["number", { pick: port("object"), path: "a[0]", type: "number" }];
        case 8:
          return ["string", { pick: port("object"), path: "a.1.s" }];
        case 9:
          return ["number", { if: port("boolean"), then: port("number"), else: port("number"), type: "number" }];
        case 10:
          return [
            "string",
            {
              if: port("number"),
              [pick() % 2 ? "below" : "above"]: port("number"),
              then: port("string"),
              else: port("string"),
            },
          ];
        default:
          return [
            "boolean",
            {
              if: port("string"),
              [pick() % 2 ? "contains" : "equals"]: port("string") || "z",
              then: port("boolean"),
              else: true,
              type: "boolean",
            },
          ];
      }
    })();
    specs[name] = spec;
    types[name] = type;
  });

  // What nothing refers to goes out, and the inputs do in any case.
  const all = JSON.stringify(specs);
  const outputs: Record<string, any> = {};
  for (const name of Object.keys(types)) {
    if (name in args || !all.includes(`{${name}}`)) outputs[`out_${name}`] = { type: types[name], from: `{${name}}` };
  }
  const inputs: Record<string, any> = {};
  for (const name of Object.keys(args))
    inputs[name] = { type: types[name], ...(hasDefaults ? { default: values[types[name]!][1] } : {}) };
  const nodes = Object.fromEntries(order.map((at) => [`n${at}`, specs[`n${at}`]]));
  return { graph: { name: "graph", description: "Random.", inputs, nodes, outputs }, args: hasDefaults ? {} : args };
}

/** What a graph must come to: its outputs, or the nodes that may have failed; and how often each tool is called. */
export interface Reference {
  outputs: Record<string, unknown>;
  failing: Set<string>;
  called: Map<string, number>;
}

/** Evaluates a good graph in the plainest way: from each output down, remembering what was found. */
export function evaluate({ graph, args }: RandomGraph): Reference {
  const known = new Map<string, unknown>();
  const failing = new Set<string>();
  const called = new Map<string, number>();
  const failed = Symbol("failed");

  const read = (port: unknown): unknown => {
    if (typeof port !== "string") return port;
    const whole = /^\{(\w+)\}$/.exec(port);
    if (whole) return valueOf(whole[1]!);
    let isGood = true;
    const text = port.replace(/\{([a-zA-Z]\w*)\}/g, (_, name: string) => {
      const value = valueOf(name);
      if (value === failed) isGood = false;
      return value === failed ? "" : typeof value === "object" ? JSON.stringify(value) : String(value);
    });
    return isGood ? text : failed;
  };

  const valueOf = (name: string): unknown => {
    if (!(name in graph.nodes)) return name in args ? args[name] : graph.inputs[name].default;
    if (!known.has(name)) known.set(name, find(name, graph.nodes[name]));
    return known.get(name);
  };

  const find = (name: string, spec: any): unknown => {
    if ("value" in spec) return spec.value;
    if ("text" in spec) {
      const text = read(` ${spec.text}`);
      return text === failed ? failed : String(text).slice(1);
    }
    if ("tool" in spec) {
      const given: Record<string, unknown> = {};
      for (const port of Object.keys(spec.in)) given[port] = read(spec.in[port]);
      if (Object.values(given).includes(failed)) return failed;
      called.set(spec.tool, (called.get(spec.tool) ?? 0) + 1);
      const text = randomTools[spec.tool]!.give(given);
      if (text === undefined) failing.add(name);
      return text === undefined ? failed : spec.type ? JSON.parse(text) : text;
    }
    if ("pick" in spec) {
      const from = read(spec.pick) as any;
      return from === failed ? failed : spec.type === "number" ? from.a[0] : from.a[1].s;
    }
    const left = read(spec.if) as any;
    const right = read(spec.below ?? spec.above ?? spec.contains ?? spec.equals) as any;
    if (left === failed || right === failed) return failed;
    const holds =
      "below" in spec
        ? left < right
        : "above" in spec
          ? left > right
          : "contains" in spec
            ? left.includes(right)
            : "equals" in spec
              ? left === right
              : left;
    return read(holds ? spec.then : spec.else);
  };

  const outputs: Record<string, unknown> = {};
  for (const name of Object.keys(graph.outputs)) outputs[name] = read(graph.outputs[name].from);
  return { outputs, failing, called };
}

const junk: unknown[] = [
  null,
  true,
  0,
  -1.5,
  1e300,
  "",
  "a",
  "{i}",
  "{n0}",
  "{n1}",
  "{s}{b}",
  "{",
  "{nix}",
  [],
  [1],
  ["{i}"],
  {},
  { type: "number" },
  { text: "{n0}" },
  { tool: "plus" },
  { value: 1 },
  { if: true, then: "{n2}", else: "{n0}" },
  "string",
  "number",
  "integer",
  "object",
  "plus",
  "graph",
  "constructor",
  "ü",
];

/** Changes one to three places of JSON: a value or a name becomes another, or goes. */
export function mutation(json: any): fc.Arbitrary<any> {
  const change = fc.record({
    place: fc.nat(),
    kind: fc.nat(3),
    other: fc.constantFrom(...junk),
    name: fc.constantFrom("n0", "a", "b", "then", "type", "after", "in", "__proto__", "length"),
  });
  return fc.array(change, { minLength: 1, maxLength: 3 }).map((changes) => {
    const copy = structuredClone(json);
    for (const { place, kind, other, name } of changes) {
      const places: [parent: any, key: string][] = [];
      const visit = (value: any): void => {
        if (typeof value !== "object" || value === null) return;
        for (const key of Object.keys(value)) {
          places.push([value, key]);
          visit(value[key]);
        }
      };
      visit(copy);
      if (places.length === 0) break;
      const [parent, key] = places[place % places.length]!;
      if (kind === 0) parent[key] = structuredClone(other);
      else if (kind === 1) delete parent[key];
      else if (kind === 2 && !Array.isArray(parent))
        Object.defineProperty(parent, name, {
          value: parent[key],
          enumerable: true,
          configurable: true,
          writable: true,
        });
      else parent[key] = structuredClone(places[(place * 7) % places.length]![0]);
    }
    return copy;
  });
}
