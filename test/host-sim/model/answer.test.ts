import fc from "fast-check";
import { describe, expect, it } from "vitest";
import adcRead from "../../../tools/adc_read";
import add from "../../../tools/add";
import compare from "../../../tools/compare";
import editFile from "../../../tools/edit_file";
import getAgentPublicInfo from "../../../tools/get_agent_public_info";
import getFunctionList from "../../../tools/get_function_list";
import gpioRead from "../../../tools/gpio_read";
import gpioWrite from "../../../tools/gpio_write";
import mod from "../../../tools/mod";
import mul from "../../../tools/mul";
import pwmWrite from "../../../tools/pwm_write";
import readFile from "../../../tools/read_file";
import tree from "../../../tools/tree";
import wifiStatus from "../../../tools/wifi_status";
import wordCount from "../../../tools/word_count";
import { createConversation, type MadeCall, type SpecOfTool } from "./conversation";

const boardTools: SpecOfTool[] = [
  adcRead,
  add,
  compare,
  editFile,
  getAgentPublicInfo,
  getFunctionList,
  gpioRead,
  gpioWrite,
  mod,
  mul,
  pwmWrite,
  readFile,
  tree,
  wifiStatus,
  wordCount,
];

function object(properties: object, required: string[]): object {
  return { type: "object", properties, required };
}

const houseTools: SpecOfTool[] = [
  {
    name: "get_weather",
    description: "Get the current weather for a city.",
    parameters: object(
      { city: { type: "string", description: "City name" }, unit: { type: "string", enum: ["celsius", "fahrenheit"] } },
      ["city"],
    ),
  },
  {
    name: "send_email",
    description: "Send an email to someone.",
    parameters: object(
      {
        to: { type: "string", description: "Recipient address" },
        subject: { type: "string" },
        body: { type: "string" },
      },
      ["to", "body"],
    ),
  },
  {
    name: "set_thermostat",
    description: "Set the target temperature of the heating.",
    parameters: object(
      {
        temperature: { type: "number", minimum: 5, maximum: 30, description: "Target in degrees Celsius" },
        room: { type: "string", enum: ["kitchen", "living room", "bedroom"] },
      },
      ["temperature"],
    ),
  },
  {
    name: "turn_light",
    description: "Turn a light of the house on or off.",
    parameters: object(
      { room: { type: "string", enum: ["kitchen", "living room", "bedroom"] }, on: { type: "boolean" } },
      ["room", "on"],
    ),
  },
  {
    name: "play_music",
    description: "Play a song or an artist.",
    parameters: object({ query: { type: "string", description: "What to play" } }, ["query"]),
  },
  {
    name: "create_reminder",
    description: "Create a reminder.",
    parameters: object({ text: { type: "string" }, when: { type: "string", description: "Time" } }, ["text"]),
  },
  {
    name: "translate",
    description: "Translate a text into another language.",
    parameters: object({ text: { type: "string" }, target_language: { type: "string" } }, ["text", "target_language"]),
  },
  {
    name: "start_timer",
    description: "Start a countdown timer.",
    parameters: object({ seconds: { type: "integer", description: "Duration in seconds" } }, ["seconds"]),
  },
  {
    name: "calculator",
    description: "Does arithmetic.",
    parameters: object(
      {
        operation: { type: "string", enum: ["add", "subtract", "multiply", "divide"] },
        x: { type: "number" },
        y: { type: "number" },
      },
      ["operation", "x", "y"],
    ),
  },
];

/** What the board's tools would say, as far as the tests need it. */
function runOnBoard({ name, arguments: args }: MadeCall): string {
  const { a, b, pin } = args as Record<string, number>;
  switch (name) {
    case "add":
      return String(a! + b!);
    case "mul":
      return String(a! * b!);
    case "mod":
      return b === 0 ? "Error: Division by zero: b must not be 0." : String(a! % b!);
    case "compare":
      return `${a} is ${a! > b! ? "greater than" : a === b ? "equal to" : "less than"} ${b}`;
    case "gpio_write":
      return pin === 9
        ? "Error: Pin 9 is flash"
        : `Pin ${pin} is now ${args.value === 1 ? "on (1, high)" : "off (0, low)"}`;
    case "gpio_read":
      return `Pin ${pin} reads 0 (low, off)`;
    case "adc_read":
      return `Pin ${pin} reads 0.512 (about 1.69 V)`;
    case "read_file":
      return `${String(args.path)}, rows 1-2 of 2:\nhello world\nsecond row here`;
    case "tree":
      return "2 files, 1000 bytes free\nagent 30000\nmain.js 12";
    default:
      return "ok";
  }
}

const board = () => createConversation(boardTools, runOnBoard);
const house = () => createConversation(houseTools);
const call = (name: string, args: Record<string, unknown> = {}): MadeCall => ({ name, arguments: args });

describe("the board's tools", () => {
  const prompts: [string, MadeCall[]][] = [
    ["turn on the LED on pin D2", [call("gpio_write", { pin: 2, value: 1 })]],
    ["please switch off the lamp on gpio 4", [call("gpio_write", { pin: 4, value: 0 })]],
    ["Could you set D5 high?", [call("gpio_write", { pin: 5, value: 1 })]],
    ["schalte die LED an D2 ein", [call("gpio_write", { pin: 2, value: 1 })]],
    ["light up pin 13", [call("gpio_write", { pin: 13, value: 1 })]],
    ["it's on D2, can you turn the light on please", [call("gpio_write", { pin: 2, value: 1 })]],
    ["put pin 2 low and then read it", [call("gpio_write", { pin: 2, value: 0 }), call("gpio_read", { pin: 2 })]],
    [
      "1. turn on D2\n2. turn off D4",
      [call("gpio_write", { pin: 2, value: 1 }), call("gpio_write", { pin: 4, value: 0 })],
    ],
    ["is pin 4 on?", [call("gpio_read", { pin: 4 })]],
    ["what is the analog value of pin 34", [call("adc_read", { pin: 34 })]],
    ["read the voltage on GPIO 35", [call("adc_read", { pin: 35 })]],
    ["set pin 4 to 30 percent", [call("pwm_write", { pin: 4, duty_percent: 30 })]],
    ["dim the LED on pin 2 to ten percent", [call("pwm_write", { pin: 2, duty_percent: 10 })]],
    ["set the motor on pin 14 to full speed", [call("pwm_write", { pin: 14, duty_percent: 100 })]],
    ["half brightness on pin 2", [call("pwm_write", { pin: 2, duty_percent: 50 })]],
    ["pwm on pin 4 with 2 kHz and 25%", [call("pwm_write", { pin: 4, frequency_hz: 2000, duty_percent: 25 })]],
    ["what is 21 times 2", [call("mul", { a: 21, b: 2 })]],
    ["multiply twenty one by two", [call("mul", { a: 21, b: 2 })]],
    ["what's 7 * 6?", [call("mul", { a: 7, b: 6 })]],
    ["was ist drei mal vier", [call("mul", { a: 3, b: 4 })]],
    ["one hundred and five plus two", [call("add", { a: 105, b: 2 })]],
    ["what is -3 plus 5", [call("add", { a: -3, b: 5 })]],
    ["subtract 3 from 10", [call("add", { a: 10, b: -3 })]],
    ["what is the remainder of 17 divided by 5", [call("mod", { a: 17, b: 5 })]],
    ["what is 8 squared", [call("mul", { a: 8, b: 8 })]],
    ["calculate 100 minus 58", [call("add", { a: 100, b: -58 })]],
    ["is 4 more than 19?", [call("compare", { a: 4, b: 19 })]],
    ["17 mod 5", [call("mod", { a: 17, b: 5 })]],
    ["is 3 bigger than 7", [call("compare", { a: 3, b: 7 })]],
    ["which is larger, 3 or 7?", [call("compare", { a: 3, b: 7 })]],
    ["which files are on the board?", [call("tree")]],
    ["show me all files", [call("tree")]],
    ["welche Dateien gibt es?", [call("tree")]],
    ["read main.js", [call("read_file", { path: "main.js" })]],
    ["what is in /lib/a.txt?", [call("read_file", { path: "/lib/a.txt" })]],
    ["show the first 10 rows of main.js", [call("read_file", { path: "main.js", rows: 10 })]],
    ["read 5 rows of main.js starting at row 20", [call("read_file", { path: "main.js", rows: 5, start_row: 20 })]],
    ['write "hello" to notes.txt', [call("edit_file", { path: "notes.txt", text: "hello" })]],
    [
      "make a new file b.txt containing foo bar",
      [call("edit_file", { path: "b.txt", text: "foo bar", mode: "create" })],
    ],
    ["count the words: the cat sat on the mat", [call("word_count", { text: "the cat sat on the mat" })]],
    ['append "more" to notes.txt', [call("edit_file", { path: "notes.txt", text: "more", mode: "append" })]],
    [
      'replace "a" with "b" in main.js',
      [call("edit_file", { path: "main.js", text: "b", old_text: "a", mode: "replace" })],
    ],
    ['how many words are in "the quick brown fox"', [call("word_count", { text: "the quick brown fox" })]],
    ["are you online?", [call("wifi_status")]],
    ["who are you", [call("get_agent_public_info")]],
    ["what can you do?", [call("get_function_list")]],
    ["turn on D2 and D4", [call("gpio_write", { pin: 2, value: 1 }), call("gpio_write", { pin: 4, value: 1 })]],
    ["turn D2 on and D4 off", [call("gpio_write", { pin: 2, value: 1 }), call("gpio_write", { pin: 4, value: 0 })]],
    ["turn on D2 and tell me the files on the board", [call("gpio_write", { pin: 2, value: 1 }), call("tree")]],
    ["add 2 and 3 and then multiply 4 by 5", [call("add", { a: 2, b: 3 }), call("mul", { a: 4, b: 5 })]],
    ["add 2 and 3, then multiply the result by 4", [call("add", { a: 2, b: 3 }), call("mul", { a: 5, b: 4 })]],
    ["what is 2 + 3 * 4", [call("mul", { a: 3, b: 4 }), call("add", { a: 2, b: 12 })]],
    ["sum of 1, 2 and 3", [call("add", { a: 1, b: 2 }), call("add", { a: 3, b: 3 })]],
    ["is 2 plus 2 bigger than 3", [call("add", { a: 2, b: 2 }), call("compare", { a: 4, b: 3 })]],
    [
      "read main.js and count the words in it",
      [call("read_file", { path: "main.js" }), call("word_count", { text: "hello world\nsecond row here" })],
    ],
  ];

  it.each(prompts)("%s", (prompt, calls) => {
    const { calls: made } = board().say(prompt);
    expect(made.map((one) => one.name)).toEqual(calls.map((one) => one.name));
    expect(made).toEqual(calls);
  });

  it("makes independent calls in one turn and dependent ones in the next", () => {
    expect(board().say("add 2 and 3 and then multiply 4 by 5").turns).toBe(2);
    expect(board().say("add 2 and 3, then multiply the result by 4").turns).toBe(3);
  });

  it("makes one call a turn where the request forbids parallel calls", () => {
    const talk = board();
    talk.messages.push({ role: "user", content: "turn on D2 and D4" });
    expect(talk.ask({ parallel_tool_calls: false })).toEqual({ toolCalls: [call("gpio_write", { pin: 2, value: 1 })] });
  });

  it("puts results into sentences", () => {
    expect(board().say("what is 21 times 2").text).toBe("21 times 2 is 42.");
    expect(board().say("is 3 bigger than 7").text).toBe("No: 3 is less than 7.");
    expect(board().say("is 9 bigger than 7").text).toBe("Yes: 9 is greater than 7.");
    expect(board().say("turn on D2").text).toBe("Pin 2 is now on (1, high).");
    expect(board().say("which files are on the board?").text).toContain("main.js 12");
  });

  it("tells an error as an error, and does not do what needed the result", () => {
    expect(board().say("17 mod 0").text).toBe("mod failed: Division by zero: b must not be 0.");
    const { calls, text } = board().say("17 mod 0, then add 4 to the result");
    expect(calls).toEqual([call("mod", { a: 17, b: 0 })]);
    expect(text).toContain("mod failed");
    expect(text).toContain("did not call add");
    const both = board().say("turn on pin 9 and pin 4");
    expect(both.text).toBe("gpio_write failed: Pin 9 is flash. Pin 4 is now on (1, high).");
  });

  it("asks for what is missing and takes the answer", () => {
    const talk = board();
    expect(talk.say("turn on the LED")).toMatchObject({ calls: [], text: expect.stringContaining("needs pin") });
    expect(talk.say("pin 5").calls).toEqual([call("gpio_write", { pin: 5, value: 1 })]);
  });

  it("names a limit instead of breaking it", () => {
    const { calls, text } = board().say("set pin 4 to 130 percent");
    expect(calls).toEqual([]);
    expect(text).toContain("at most 100");
  });

  it("follows up on the call before", () => {
    const talk = board();
    talk.say("turn on D2");
    expect(talk.say("and now off").calls).toEqual([call("gpio_write", { pin: 2, value: 0 })]);
    expect(talk.say("turn it on again").calls).toEqual([call("gpio_write", { pin: 2, value: 1 })]);
    expect(talk.say("now D4 too").calls).toEqual([call("gpio_write", { pin: 4, value: 1 })]);
    expect(talk.say("and pin 5?").calls).toEqual([call("gpio_read", { pin: 5 })]);
    talk.say("set pin 4 to 30 percent");
    expect(talk.say("now to 60").calls).toEqual([call("pwm_write", { pin: 4, duty_percent: 60 })]);
    talk.say("what is 6 times 7");
    expect(talk.say("multiply that by 2").calls).toEqual([call("mul", { a: 42, b: 2 })]);
  });

  it.each(["don't turn on D2", "turn on D2 if pin 4 is high", "turn on D2 every 5 seconds"])(
    "does nothing: %s",
    (prompt) => {
      const { calls, text } = board().say(prompt);
      expect(calls).toEqual([]);
      expect(text).toContain("D2");
    },
  );

  it.each(["tell me a joke", "write a poem", "delete main.js", "what is the capital of France", "is it raining?"])(
    "says what it is and can do where nothing fits: %s",
    (prompt) => {
      const { calls, text } = board().say(prompt);
      expect(calls).toEqual([]);
      expect(text).toContain("stand-in");
      expect(text).toContain("- gpio_write: Switch a pin on or off.");
    },
  );

  it.each(["hello", "who are you", "are you a human?"])("says that it is a stand-in: %s", (prompt) => {
    expect(board().say(prompt).text).toContain("stand-in");
  });
});

describe("tools of other people", () => {
  const prompts: [string, MadeCall[]][] = [
    ["what's the weather in Berlin?", [call("get_weather", { city: "Berlin" })]],
    ["weather in new york in fahrenheit", [call("get_weather", { city: "new york", unit: "fahrenheit" })]],
    ["weather in Berlin and Paris", [call("get_weather", { city: "Berlin" }), call("get_weather", { city: "Paris" })]],
    [
      'send an email to bob@x.com with subject "Hi" and body "see you"',
      [call("send_email", { to: "bob@x.com", subject: "Hi", body: "see you" })],
    ],
    [
      "email alice@example.org saying I will be late",
      [call("send_email", { to: "alice@example.org", body: "I will be late" })],
    ],
    ["set the thermostat to 21 degrees", [call("set_thermostat", { temperature: 21 })]],
    ["heat the kitchen to 19.5 °C", [call("set_thermostat", { temperature: 19.5, room: "kitchen" })]],
    ["turn off the light in the living room", [call("turn_light", { room: "living room", on: false })]],
    [
      "turn on the kitchen light and set the heating to twenty two",
      [call("turn_light", { room: "kitchen", on: true }), call("set_thermostat", { temperature: 22 })],
    ],
    ["play some jazz", [call("play_music", { query: "jazz" })]],
    ["remind me to buy milk tomorrow at 9", [call("create_reminder", { text: "buy milk", when: "tomorrow at 9" })]],
    ["translate good morning to German", [call("translate", { text: "good morning", target_language: "German" })]],
    ["start a timer for 5 minutes", [call("start_timer", { seconds: 300 })]],
    ["what is 5 minus 3", [call("calculator", { operation: "subtract", x: 5, y: 3 })]],
    ["divide 10 by 4", [call("calculator", { operation: "divide", x: 10, y: 4 })]],
  ];

  it.each(prompts)("%s", (prompt, calls) => {
    expect(house().say(prompt).calls).toEqual(calls);
  });

  it("does not change anything to answer a question", () => {
    expect(house().say("is the light in the kitchen on?").calls).toEqual([]);
  });

  it("tells JSON results in words and JSON errors as errors", () => {
    const talk = (content: string) => createConversation(houseTools, () => content).say("weather in Berlin").text;
    expect(talk('{"city":"Berlin","temperature":17}')).toBe("get_weather says: city Berlin, temperature 17.");
    expect(talk('{"error":"no such city"}')).toBe("get_weather failed: no such city.");
    expect(talk("")).toContain("nothing back");
  });
});

describe("more tools of other people", () => {
  const spec = (name: string, description: string, properties: object, required: string[] = []): SpecOfTool => {
    return { name, description, parameters: object(properties, required) };
  };
  const text = { type: "string" };
  const currency = { type: "string", enum: ["USD", "EUR", "GBP"] };
  const byte = { type: "integer", minimum: 0, maximum: 255 };
  const tools = [
    spec("get_time", "Get the current time in a time zone.", { timezone: text }),
    spec("get_stock_price", "Get the latest price of a stock.", { symbol: text }, ["symbol"]),
    spec("book_flight", "Book a flight.", { from: text, to: text, date: text, passengers: { type: "integer" } }, [
      "to",
    ]),
    spec("create_user", "Create a user account.", { name: text, age: { type: "integer" }, email: text }, ["name"]),
    spec("convert_currency", "Convert money.", { amount: { type: "number" }, from: currency, to: currency }, [
      "amount",
      "from",
      "to",
    ]),
    spec("roll_dice", "Roll a die.", { sides: { type: "integer", minimum: 2 } }),
    spec("open_valve", "Open a valve.", { valve: { type: "integer", maximum: 4 }, seconds: { type: "number" } }, [
      "valve",
      "seconds",
    ]),
    spec("set_color", "Set the colour of the strip.", { red: byte, green: byte, blue: byte }, ["red", "green", "blue"]),
    spec("sum_list", "Add up a list of numbers.", { numbers: { type: "array", items: { type: "number" } } }, [
      "numbers",
    ]),
    spec("http_get", "Fetch a web page.", { url: text }, ["url"]),
    spec("reboot", "Restart the device.", {}),
  ];

  it.each<[string, MadeCall[]]>([
    ["what time is it?", [call("get_time")]],
    ["what is the stock price of AAPL", [call("get_stock_price", { symbol: "AAPL" })]],
    [
      "book a flight from New York to Paris tomorrow for 2 passengers",
      [call("book_flight", { from: "New York", to: "Paris", date: "tomorrow", passengers: 2 })],
    ],
    [
      "create a user named Bob aged 30 with email bob@x.com",
      [call("create_user", { name: "Bob", age: 30, email: "bob@x.com" })],
    ],
    ["convert 20 USD to EUR", [call("convert_currency", { amount: 20, from: "USD", to: "EUR" })]],
    ["how much is 5 EUR in GBP", [call("convert_currency", { amount: 5, from: "EUR", to: "GBP" })]],
    ["roll a dice with 20 sides", [call("roll_dice", { sides: 20 })]],
    ["open valve 3 for two minutes", [call("open_valve", { valve: 3, seconds: 120 })]],
    ["open valve 7 for 5 seconds", []],
    ["set the color to red 255 green 0 blue 128", [call("set_color", { red: 255, green: 0, blue: 128 })]],
    ["sum of 4 and 5", [call("sum_list", { numbers: [4, 5] })]],
    ["fetch https://example.com/a?b=1", [call("http_get", { url: "https://example.com/a?b=1" })]],
    ["reboot please", [call("reboot")]],
    ["make it red", []],
  ])("%s", (prompt, calls) => {
    expect(createConversation(tools).say(prompt).calls).toEqual(calls);
  });
});

describe("tool_choice", () => {
  const ask = (prompt: string, extra: object) => {
    const talk = board();
    talk.messages.push({ role: "user", content: prompt });
    return talk.ask(extra);
  };

  it("none: answers without a call", () => {
    expect(ask("turn on D2", { tool_choice: "none" })).toHaveProperty("text");
  });

  it("required: calls even where nothing was asked for", () => {
    expect(ask("tell me a joke", { tool_choice: "required" })).toHaveProperty("toolCalls");
  });

  it("one function: calls that one", () => {
    const choice = { type: "function", function: { name: "mul" } };
    expect(ask("add 2 and 3", { tool_choice: choice })).toMatchObject({ toolCalls: [{ name: "mul" }] });
  });
});

it("answers from the results where the last request carries no tools", () => {
  const talk = board();
  talk.say("what is 21 times 2");
  talk.messages.pop();
  expect(talk.ask({ tools: undefined })).toEqual({ text: "21 times 2 is 42." });
});

it("has an answer for any text", () => {
  const words = fc.constantFrom(
    "turn",
    "on",
    "off",
    "and",
    "then",
    "it",
    "result",
    "add",
    "times",
    "2",
    "D4",
    "pin 5",
    "main.js",
    '"a b"',
    "?",
    ",",
    ".",
    "30%",
    "is",
    "the",
    "if",
    "read",
    "(",
    "minus",
    "who",
    "you",
  );
  const texts = fc.oneof(
    fc.string({ unit: "grapheme" }),
    fc.array(words, { maxLength: 14 }).map((list) => list.join(" ")),
  );
  fc.assert(
    fc.property(texts, fc.boolean(), (text, isHouse) => {
      const { text: reply, calls } = (isHouse ? house() : board()).say(text);
      expect(reply).not.toBe("");
      expect(reply).not.toContain("undefined");
      expect(calls.length).toBeLessThanOrEqual(8);
    }),
    { numRuns: 300 },
  );
});
