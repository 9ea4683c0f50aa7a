import { word } from "./commands";
import { openSettings } from "./config";
import { savedTools } from "./saved-tools";

/**
 * The composition root, and the only file that does something when the bundle is loaded: it makes the words that a
 * person types. A getter that is made here, at the top of the module, is the cheapest function there is.
 */
function define(name: string, get: () => any): void {
  Object.defineProperty(global, name, { get: get });
}

// This one first, see `word`.
define("agent_commands", function () { return word("agent_commands"); });
define("init_tools", function () { return word("init_tools"); });
define("list_tools", function () { return word("list_tools"); });
define("main_loop_entry", function () { return word("main_loop_entry"); });
define("cleanup_agent", function () { return word("cleanup_agent"); });
define("agent_send_message", function () { return word("agent_send_message"); });
define("show_llm_config", function () { return word("show_llm_config"); });
define("ask", function () { return word("ask"); });
define("status", function () { return word("status"); });
define("clear_history", function () { return word("clear_history"); });
define("set_config", function () { return word("set_config"); });
define("abort", function () { return word("abort"); });
define("add_tool", function () { return word("add_tool"); });
define("add_graph", function () { return word("add_graph"); });
define("save_tool", function () { return word("save_tool"); });
define("remove_tool", function () { return word("remove_tool"); });
define("add_observer", function () { return word("add_observer"); });
define("session_save", function () { return word("session_save"); });
define("session_load", function () { return word("session_load"); });

const problem = openSettings().load();
print('espruino-agent: ask("..."), main_loop_entry (chat), agent_commands');
if (problem) print(problem);
const interrupted = savedTools().lastRun(false);
if (interrupted) print(interrupted);
