/** Few rules: what the compilers and the bundle check cannot say earlier or better, and nothing of taste. */
import esX from "eslint-plugin-es-x";
import tseslint from "typescript-eslint";

/** What Espruino does not parse and esbuild does not lower: told in the editor, before the build tells it. */
const BOARD_RULES = Object.fromEntries(
  [
    "no-async-functions",
    "no-bigint",
    "no-class-instance-fields",
    "no-class-private-fields",
    "no-class-private-methods",
    "no-class-static-block",
    "no-computed-properties",
    "no-default-parameters",
    "no-destructuring",
    "no-generators",
    "no-map",
    "no-new-target",
    "no-proxy",
    "no-reflect",
    "no-regexp-lookbehind-assertions",
    "no-regexp-named-capture-groups",
    "no-regexp-s-flag",
    "no-regexp-u-flag",
    "no-regexp-y-flag",
    "no-rest-parameters",
    "no-set",
    "no-spread-elements",
    "no-symbol",
    "no-weak-map",
    "no-weak-set",
  ].map((name) => [`es-x/${name}`, "error"]),
);

export default tseslint.config(
  { ignores: ["dist/", "coverage/", "node_modules/"] },
  tseslint.configs.recommended,
  {
    rules: {
      "no-console": "off",
      "@typescript-eslint/no-explicit-any": "off",
      "@typescript-eslint/no-unused-vars": [
        "error",
        { argsIgnorePattern: "^_", varsIgnorePattern: "^_", caughtErrors: "none" },
      ],
      "@typescript-eslint/no-empty-function": "off",
      "@typescript-eslint/no-empty-object-type": "off",
      "@typescript-eslint/no-this-alias": "off",
      "@typescript-eslint/no-unsafe-function-type": "off",
      "@typescript-eslint/no-unused-expressions": "off",
      eqeqeq: ["error", "always", { null: "ignore" }],
    },
  },
  {
    files: ["firmware/**/*.ts", "tools/**/*.ts"],
    plugins: { "es-x": esX },
    rules: {
      ...BOARD_RULES,
      // require is the board's own way to its modules.
      "@typescript-eslint/no-require-imports": "off",
      "no-restricted-syntax": [
        "error",
        { selector: "TaggedTemplateExpression", message: "Espruino does not parse tagged templates." },
        { selector: "LabeledStatement", message: "Espruino does not parse labels." },
        { selector: "ArrowFunctionExpression Identifier[name='arguments']", message: "No arguments in arrows." },
      ],
    },
  },
  {
    files: ["firmware/**/*.d.ts"],
    rules: { "no-var": "off", "es-x/no-symbol": "off" },
  },
);
