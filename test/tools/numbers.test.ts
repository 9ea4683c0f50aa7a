import { describe, expect, it } from "vitest";
import { formatNumber } from "../../firmware/numbers";
import { plugInBoard } from "./board";

const board = plugInBoard();

describe("formatNumber", () => {
  it.each([
    [0, "0"],
    [-0, "0"],
    [42, "42"],
    [0.1 + 0.2, "0.3"],
    [-2.5, "-2.5"],
    [1 / 3, "0.333333333333"],
    [1234567.891, "1234567.891"],
    [99999.99999999999, "100000"],
    [0.00012345678901, "0.00012345678901"],
    [1e-7 * 3, "0.0000003"],
    [5e-8, "5e-8"],
    [-1e-20, "-1e-20"],
    [9007199254740992, "9007199254740992"],
    [1e16, "about 1e+16"],
    [-1e21, "about -1e+21"],
    [123456789 * 987654321, "about 1.21932631113e+17"],
    [1.7976931348623157e308, "about 1.79769313486e+308"],
    [5e-324, "4.94065645841e-324"],
  ])("writes %d as %s", (x, text) => {
    expect(formatNumber(x)).toBe(text);
  });

  it.each([NaN, Infinity, -Infinity])("leaves %d to the caller", (x) => {
    expect(formatNumber(x)).toBe("");
  });
});

describe("arithmetic tools", () => {
  it("add", () => {
    expect(board.run("add", { a: 0.1, b: 0.2 })).toBe("0.3");
    expect(board.run("add", { a: 2147483647, b: 1 })).toBe("2147483648");
    expect(board.fail("add", { a: 1e308, b: 1e308 })).toContain("too large");
  });

  it("mul", () => {
    expect(board.run("mul", { a: 21, b: 2 })).toBe("42");
    expect(board.run("mul", { a: 0, b: -5 })).toBe("0");
    expect(board.fail("mul", { a: 1e308, b: -10 })).toContain("too large");
  });

  it.each([
    [17, 5, "2"],
    [-17, 5, "-2"],
    [17, -5, "2"],
    [5.5, 2, "1.5"],
    [0.3, 0.1, "0"],
    [-0.3, 0.1, "0"],
    [10, 0.1, "0"],
    [1e-10, 1, "1e-10"],
    [1e15 + 0.5, 1, "0.5"],
    [8, 2, "0"],
  ])("mod: %d mod %d is %s", (a, b, rest) => {
    expect(board.run("mod", { a, b })).toBe(rest);
  });

  it("mod refuses to divide by zero", () => {
    expect(board.fail("mod", { a: 5, b: 0 })).toBe("Division by zero: b must not be 0.");
    expect(board.fail("mod", { a: 5, b: -0 })).toContain("zero");
  });

  it("compare", () => {
    expect(board.run("compare", { a: 9.11, b: 9.9 })).toBe("9.11 is less than 9.9");
    expect(board.run("compare", { a: -1, b: -2 })).toBe("-1 is greater than -2");
    expect(board.run("compare", { a: 2, b: 2 })).toBe("2 is equal to 2");
    expect(board.run("compare", { a: 0.1 + 0.2, b: 0.3 })).toBe("0.3 is equal to 0.3");
  });
});

describe("word_count", () => {
  it.each([
    ["", "0 words"],
    [" \n\t ", "0 words"],
    ["one", "1 word"],
    ["  the quick\tbrown\r\nfox  jumps\n", "5 words"],
    ["caf\xc3\xa9 \xe2\x82\xac 5", "3 words"],
  ])("%j has %s", (text, words) => {
    expect(board.run("word_count", { text })).toBe(words);
  });
});
