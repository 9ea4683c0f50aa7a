import { setting } from "./config";
import { writeFile } from "./files";
import { guardCode } from "./guard";
import type { RegistryEditor } from "./registry";
import { openSandbox } from "./sandbox";
import { fromJson, readWhole, toJson, wireText } from "./text";
import type { LoadedTool, Registry, Session, ToolResult } from "./types";

/**
 * Tools that are code in the Storage, one file each, `tool.` and the name: a line with a checksum of the rest and the
 * origin, the description and the parameters as a request writes them, and the code with its guards. Texts and code
 * stay in flash; a tool at rest is its registry node. What is named here must be none of the names that the build
 * shortens: the files outlive the bundle.
 */
const FILE = "tool.";
/** A tool that did not come back. */
const ASIDE = "tool!";
/** Bytes of a name: those of a file in the Storage are 28. */
const NAME_BYTES = 23;
/** Bytes of a description, and of the parameters: every request carries them. */
const DESCRIPTION_BYTES = 300;
const PARAMETERS_BYTES = 600;
/** A name of a tool or of a parameter. */
const NAME = /^[a-zA-Z0-9_\-]+$/;

// A tool's parameters as JSON for servers: `double` is a number there, and what is no UTF-8 becomes U+FFFD.
export function schemaText(parameters: any): string {
  return fromJson(wireText(toJson(parameters))).split('"type":"double"').join('"type":"number"');
}

// The tool in a file. Where that is gone or damaged, one without an `origin`, which says so when it is called.
export function loadSaved(file: string): LoadedTool {
  const text = require("Storage").read(file) || "";
  const head = text.indexOf("\n");
  const first = text.indexOf("\n", head + 1);
  const second = text.indexOf("\n", first + 1);
  const words = text.substr(0, head).split(" ");
  const good = head > 0 && first > head && second > first && String(E.CRC32(text.substr(head + 1))) === words[0];
  return {
    name: file.substr(FILE.length),
    origin: good ? words.slice(1).join(" ") : undefined,
    description: good ? text.substring(head + 1, first) : '"A damaged tool."',
    parameters: good ? text.substring(first + 1, second) : '{"type":"object","properties":{}}',
    repeatable: true,
    needs: "allowJs",
    // Its own limit comes first, and says more.
    timeoutMs: setting("toolTimeoutMs") + 2000,
    execute: function (args, context) {
      const node = context.node;
      if (!good)
        return { isError: true, content: "the file of " + node.name + " is gone or damaged: remove_tool removes it" };
      // The flash is written for its first run after a start only.
      const isFirst = !node.ran;
      node.ran = true;
      return openSandbox().run(isFirst ? file : "", text.substr(second + 1), args) as any;
    },
  };
}

/**
 * What saves and removes tools. It exists while it does. Results are for person and model. A tool that a sub-agent saves is
 * its own and the person's agent's, at once; one that it removes is nobody's any more. `edit` is `editRegistry`.
 */
export interface SavedTools {
  /** Registers all saved tools that `picks` takes. A damaged one is told at the console, unless `quiet`. */
  link(editor: RegistryEditor, picks: (tool: LoadedTool) => boolean, quiet?: boolean): void;
  /**
   * What did not come back before the last start, in words for person and model; "" if there is no such thing. A saved
   * tool is set aside. With `told`, it is not told again.
   */
  lastRun(told: boolean): string;
  /** Checks and saves `{name, description, parameters, code}`, and registers it. `origin`: who does, `by the model`. */
  save(tool: any, origin: string, session: Session, edit: EditRegistry): ToolResult;
  /** Puts a tool back that was set aside. */
  restore(name: string, session: Session, edit: EditRegistry): ToolResult;
  remove(name: string, session: Session, edit: EditRegistry): ToolResult;
}

type EditRegistry = (registry: Registry) => RegistryEditor;

export function savedTools(): SavedTools {
  const storage = require("Storage");

  function fail(content: string): ToolResult {
    return { isError: true, content: content };
  }

  function done(content: string, session: Session): ToolResult {
    for (let one: Session | undefined = session; one; one = one.parent) delete one.toolBytes;
    return {
      isError: false,
      content: content + (setting("allowJs") ? "" : " (it is there with set_config({allowJs:true}) only)"),
    };
  }

  function problemOf(name: any, description: any, parameters: any): string {
    if (typeof name !== "string" || !NAME.test(name) || name.length > NAME_BYTES)
      return (
        "a saved tool needs a name of letters, digits, _ and -, at most " + NAME_BYTES + " characters: it names a file"
      );
    if (typeof description !== "string" || !description.trim() || description.length > DESCRIPTION_BYTES)
      return (
        name +
        " needs a description, at most " +
        DESCRIPTION_BYTES +
        " bytes: when to use it, what goes in, what comes out"
      );
    const like =
      'parameters must look like {"type":"object","properties":{"pin":{"type":"integer"}},"required":["pin"]}';
    // A server that refuses a schema refuses every request with it.
    const types = "string, number, integer, boolean, array, object";

    // The name of the first rule within `rule` that is none, "" if all are.
    function wrongIn(rule: any, name: string): string {
      if (!rule || (types + ", double").split(", ").indexOf(rule.type) < 0) return name;
      if (rule.enum !== undefined && !(rule.enum instanceof Array && rule.enum.length)) return name;
      if (rule.description !== undefined && typeof rule.description !== "string") return name;
      if (rule.type === "array" && rule.items === undefined) rule.items = {};
      else if (rule.items !== undefined && wrongIn(rule.items, name)) return name;
      const inner = rule.properties === undefined ? {} : rule.properties;
      if (!inner || typeof inner !== "object" || inner instanceof Array) return name;
      for (const key in inner) {
        const found = NAME.test(key) ? wrongIn(inner[key], key) : key;
        if (found) return found;
      }
      const required = rule.required === undefined ? [] : rule.required;
      if (!(required instanceof Array)) return name;
      for (let i = 0; i < required.length; i++)
        if (typeof required[i] !== "string" || !{}.hasOwnProperty.call(inner, required[i]) || required.indexOf(required[i]) !== i) return name;
      return "";
    }

    if (!parameters || parameters.type !== "object" || !parameters.properties) return like;
    const wrong = wrongIn(parameters, "parameters");
    if (wrong)
      return wrong + " needs a type: " + types + "; names like a tool's; a list as enum; required names that are properties; " + like;
    return toJson(parameters).length > PARAMETERS_BYTES
      ? "the parameters have more than " + PARAMETERS_BYTES + " bytes: every request carries them"
      : "";
  }

  // Code that is one function as a whole is called with the arguments.
  function guarded(code: string): { code: string; problem: string } {
    code = code.trim();
    if (/^function[ (]|^[(]*[a-zA-Z0-9_$, ]*[)]*[ ]*=>/.test(code)) {
      const whole = guardCode("return (" + (code.endsWith(";") ? code.substr(0, code.length - 1) : code) + "\n)(args)");
      if (!whole.problem) return whole;
    }
    return guardCode(code);
  }

  function unlink(name: string, session: Session, edit: EditRegistry): void {
    for (let one: Session | undefined = session; one; one = one.parent) edit(one.tools).unlink(name);
  }

  // Registers the tool and stores its file; nothing is changed where either fails.
  function store(name: string, text: string, session: Session, edit: EditRegistry): string {
    let root = session;
    while (root.parent) root = root.parent;
    if (storage.read(FILE + name, 0, 1) !== undefined || !edit(root.tools).link(name, FILE + name))
      return "there is a tool called " + name + ": choose another name, or remove it first (remove_tool)";
    if (root !== session) edit(session.tools).link(name, FILE + name);
    const problem = writeFile(FILE + name, [text]);
    if (problem || !setting("allowJs")) unlink(name, session, edit);
    if (!problem) storage.erase(ASIDE + name);
    return problem;
  }

  return {
    link: function (editor, picks, quiet) {
      for (const file of storage.list(/^tool[.]/)) {
        const tool = loadSaved(file);
        if (!tool.origin && quiet) continue;
        else if (!tool.origin)
          print("the saved tool " + tool.name + ' is damaged: remove_tool("' + tool.name + '"), or save it anew');
        else if (picks(tool)) editor.link(tool.name, file);
      }
    },
    lastRun: function (told) {
      const journal = openSandbox().journal();
      const what = journal.open();
      if (!what) return "";
      if (told) journal.close();
      if (!what.startsWith(FILE)) return "the board was started anew while this ran: " + what;
      const name = what.substr(FILE.length);
      const text = storage.read(what);
      const problem = text && writeFile(ASIDE + name, [text]);
      if (text && !problem) storage.erase(what);
      return (
        "the board was started anew while the saved tool " +
        name +
        " ran: " +
        (problem
          ? "it could not be set aside: " + problem
          : 'it is set aside, save_tool("' + name + '") at the console puts it back')
      );
    },
    save: function (tool, origin, session, edit) {
      if (!tool || typeof tool !== "object")
        return fail(
          'save_tool({name:"double",description:"Doubles x.",parameters:{type:"object",' +
            'properties:{x:{type:"number"}}},code:"return args.x*2"})'
        );
      let parameters = tool.parameters || { type: "object", properties: {} };
      if (typeof parameters === "string") parameters = readWhole(parameters);
      let problem = problemOf(tool.name, tool.description, parameters);
      if (!problem && (!tool.code || !String(tool.code).trim())) problem = tool.name + " needs code: return args.x*2";
      if (problem) return fail(problem);
      const code = guarded(String(tool.code));
      if (code.problem) return fail("not saved: " + code.problem);
      const schema = schemaText(parameters);
      const text = wireText(tool.description) + "\n" + schema + "\n" + code.code;
      problem = store(tool.name, E.CRC32(text) + " " + origin + "\n" + text, session, edit);
      return problem
        ? fail(problem)
        : done(tool.name + " is saved, " + text.length + " bytes: there from now on, also after a restart", session);
    },
    restore: function (name, session, edit) {
      const text = storage.read(ASIDE + name);
      if (text === undefined) return fail("no tool called " + name + " was set aside");
      const problem = store(name, text, session, edit);
      return problem ? fail(problem) : done(name + " is back", session);
    },
    remove: function (name, session, edit) {
      let names = "";
      let found = "";
      for (const file of storage.list(/^tool[.!]/)) {
        const own = file.substr(FILE.length);
        names += (names && ", ") + own;
        if (own === name) found = file;
      }
      if (!found) return fail("no saved tool is called " + name + ". Saved: " + (names || "none"));
      storage.erase(FILE + name);
      storage.erase(ASIDE + name);
      unlink(name, session, edit);
      return done(name + " is removed", session);
    },
  };
}
