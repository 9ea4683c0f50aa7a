/**
 * Espruino's ECMAScript library, run inside the simulated board's realm (plain JavaScript: it is evaluated in a `vm`
 * context of its own, so that every array, object and function it makes belongs there). It removes what the
 * interpreter lacks, replaces what behaves otherwise, and returns the helpers that rewritten source calls.
 * Behaviour follows the interpreter's own sources and what it printed.
 *
 * `host` is realm.ts' side of it: stack texts, the event queue, evaluation, limits.
 */
(function (host) {
  const G = globalThis;
  const NativeError = Error;
  const { TypeError: NativeTypeError, RangeError: NativeRangeError } = G;
  const { Map: NativeMap, WeakMap: NativeWeakMap, WeakSet: NativeWeakSet } = G;
  const nativeKeys = Object.keys;
  const nativeDescriptor = Object.getOwnPropertyDescriptor;
  const define = Object.defineProperty;
  const nativeGetPrototypeOf = Object.getPrototypeOf;
  const nativeIsInteger = Number.isInteger;
  const trunc = Math.trunc;
  const floor = Math.floor;
  const isArray = Array.isArray;
  const isView = ArrayBuffer.isView;
  const nativeParseInt = parseInt;
  const NativeDate = Date;
  const fromCharCode = String.fromCharCode;
  const NativeBigInt = BigInt;
  const nativeNumberToString = Number.prototype.toString;
  const ownNames = Object.getOwnPropertyNames;
  NativeError.stackTraceLimit = 30;

  const method = (object, name, value) =>
    define(object, name, { value, writable: true, configurable: true, enumerable: false });

  /** Values whose memory the interpreter has given away, see the constructor of Promise. */
  const brokenValues = new NativeWeakSet();

  // ---- The interpreter's stack: an account in bytes, kept by what every function runs first and last.
  /** What a built-in function that calls back has on the stack, and `call` and `apply`. */
  const CALLBACK_STACK = 1500;
  const CALL_STACK = 1100;
  let stackUsed = 0;
  let stackPeak = 0;
  const enterStack = (bytes) => {
    const before = stackUsed;
    stackUsed += bytes;
    if (stackUsed > host.stackBytes) throw host.interrupt("stack");
    if (stackUsed > stackPeak) stackPeak = stackUsed;
    return before;
  };
  const leaveStack = (before, value) => {
    stackUsed = before;
    return value;
  };

  // ---- Loops: nobody can press Ctrl-C while one runs here, so one without end is ended.
  let stepsLeft = host.maxSteps;
  const step = () => {
    if (--stepsLeft < 0) throw host.interrupt("steps");
  };

  // ---- Errors: five unrelated classes whose fields are own properties; no `name`.
  const errorClasses = {};
  const makeErrorClass = (type) => {
    const ErrorClass = function (message) {
      const self = this instanceof ErrorClass ? this : Object.create(ErrorClass.prototype);
      if (message !== undefined) self.message = message;
      self.type = type;
      self.stack = host.stack(new NativeError().stack);
      return self;
    };
    method(ErrorClass.prototype, "toString", function () {
      const kind = this.type === undefined ? "Error" : this.type;
      return this.message === undefined ? str(kind) : str(kind) + ": " + str(this.message);
    });
    errorClasses[type] = ErrorClass;
    method(G, type, ErrorClass);
    return ErrorClass;
  };
  for (const type of ["Error", "TypeError", "SyntaxError", "ReferenceError", "InternalError"]) makeErrorClass(type);

  const makeError = (type, message, nativeStack) => {
    const error = Object.create((errorClasses[type] || errorClasses.Error).prototype);
    error.message = message;
    error.type = type;
    error.stack = host.stack(nativeStack || new NativeError().stack);
    return error;
  };
  const isRealmError = (value) => Object.values(errorClasses).some((ErrorClass) => value instanceof ErrorClass);

  /** V8's own errors in the interpreter's words; what cannot be caught on the board is thrown on. */
  const caught = (value) => {
    if (host.isInterrupt(value)) throw value;
    const isNative = value instanceof NativeError;
    if (!isNative && !host.isHostError(value)) return value;
    const message = value.message;
    const stack = value.stack;
    if (!isNative) {
      if (host.isStackOverflow(value)) throw host.interrupt("stack");
      return makeError(value.type || "Error", message, stack);
    }
    if (value instanceof NativeRangeError && /call stack/.test(message)) throw host.interrupt("stack");
    if (
      /^Invalid (string|array|typed array) length|allocation failed/.test(message) &&
      value instanceof NativeRangeError
    )
      return /string|allocation/.test(message)
        ? (() => {
            throw host.interrupt("memory");
          })()
        : makeError("Error", "Invalid array length", stack);
    let match;
    if (
      (match = /^(\S+) is not defined$/.exec(message)) ||
      (match = /^Cannot access '(.*)' before initialization$/.exec(message))
    )
      return makeError("ReferenceError", `"${match[1].split("ρ")[0]}" is not defined`, stack);
    if (
      (match = /^Cannot (?:read|set) properties of (null|undefined) \((?:reading|setting) '([\s\S]*)'\)$/.exec(message))
    ) {
      if (/^[A-Za-z_$][\w$]*$/.test(match[2]))
        return makeError("Error", `Can't read property '${match[2]}' of ${match[1]}`, stack);
      return makeError(
        "Error",
        `Field or method "${match[2]}" does not already exist, and can't create it on ${match[1]}`,
        stack,
      );
    }
    if ((match = /^([\s\S]*) is not a function(?: or its return value is not iterable)?$/.exec(message))) {
      const name = /([\w$]+)$/.exec(match[1]);
      return makeError("Error", name ? `Function "${name[1]}" not found!` : "Function not found!", stack);
    }
    if (/is not a constructor$/.test(message))
      return makeError("Error", "Constructor should be a function, but is undefined", stack);
    if (/^Assignment to constant variable/.test(message) || /read only property/.test(message))
      return makeError("TypeError", "Assignment to a constant", stack);
    if (/'in' operator/.test(message)) return makeError("Error", "Can't use 'in' operator to search a String", stack);
    if (/Right-hand side of 'instanceof'/.test(message))
      return makeError("Error", "Expecting function on RHS, got undefined", stack);
    if (/Cannot convert object to primitive|Converting circular/.test(message))
      return makeError("InternalError", "Variable type cannot be converted to string", stack);
    return makeError(value instanceof NativeTypeError ? "TypeError" : "Error", message, stack);
  };

  // ---- Numbers
  const digitOf = (value) => "0123456789abcdefghijklmnopqrstuvwxyz"[value];
  const MAX_DIGITS = 64;

  /** `ftoa_bounded_extra`: prints until what is left is below 1e-7, at most 12 places. */
  const floatToString = (number, radix = 10, fractionalDigits = -1) => {
    if (number !== number) return "NaN";
    if (number === Infinity) return "Infinity";
    if (number === -Infinity) return "-Infinity";
    const stopAtError = 0.0000001;
    let out = "";
    let value = number;
    if (value < 0) {
      out = "-";
      value = -value;
    }
    let exponent = 0;
    if (radix === 10 && value > 0 && fractionalDigits < 0) {
      if (value >= 1e21) {
        while (value > 100000) {
          value /= 100000;
          exponent += 5;
        }
        while (value > 10) {
          value /= 10;
          exponent++;
        }
      } else if (value < 1e-6) {
        while (value < 1e-5) {
          value *= 100000;
          exponent -= 5;
        }
        while (value < 1) {
          value *= 10;
          exponent--;
        }
      }
    }
    if (value < 2 ** 62 && trunc(value + stopAtError) === 1 + trunc(value)) value = 1 + trunc(value);
    let d = 1;
    while (d * radix <= value) d *= radix;
    while (d >= 1 && out.length < MAX_DIGITS) {
      const digit = trunc(value / d);
      value -= digit * d;
      out += digitOf(digit);
      d /= radix;
    }
    let places = fractionalDigits;
    if ((places < 0 && value > 0) || places > 0) {
      let hasPoint = false;
      value *= radix;
      while ((places < 0 && places > -12 && value > stopAtError) || places > 0) {
        let digit = trunc(value + (places === 1 ? 0.5 : 0.00000001));
        value = (value - digit) * radix;
        if (digit === radix) digit = radix - 1;
        if (!hasPoint) {
          hasPoint = true;
          out += ".";
        }
        out += digitOf(digit);
        places--;
      }
    }
    if (exponent) out += "e" + (exponent > 0 ? "+" : "") + exponent;
    return out;
  };

  const numberToString = (number) => {
    if (nativeIsInteger(number) && number < 2 ** 63 && number >= -(2 ** 63))
      return `${number < 1e15 && number > -1e15 ? number : NativeBigInt(number)}`;
    return floatToString(number);
  };

  /** Lists of numbers that are no object to the interpreter; a DataView is one. */
  const isBuffer = (value) => value instanceof ArrayBuffer || (isView(value) && !(value instanceof DataView));
  const isObject = (value) =>
    typeof value === "object" && value !== null && !isArray(value) && !isBuffer(value) && !host.isPin(value);
  /** A value as text, as `String` makes it. */
  const str = (value) => {
    if (typeof value === "string") return value;
    if (typeof value === "number") return numberToString(value);
    if (value === null || value === undefined || typeof value === "boolean") return `${value}`;
    if (typeof value === "function") return functionToString(value);
    if (isArray(value)) return joinArray(value);
    if (isBuffer(value)) return joinArray(isView(value) ? value : new Uint8Array(value));
    if (brokenValues.has(value)) throw makeError("InternalError", "Variable type cannot be converted to string");
    if (host.isPin(value)) return value.toString();
    if (value.toString === undefined || value.toString === Object.prototype.toString) return "[object Object]";
    if (typeof value.toString !== "function")
      throw makeError("Error", `Expecting function, got ${typeName(value.toString)}`);
    return str(value.toString());
  };
  /** What an operator works with. */
  const valueOf = (value) =>
    isObject(value) && typeof value.valueOf === "function" && value.valueOf !== Object.prototype.valueOf
      ? value.valueOf()
      : value;

  /** Text that cannot fit the board's memory ends what runs, as it does there. */
  const fitting = (text) => {
    if (text.length > host.memoryBytes) throw host.interrupt("memory");
    return text;
  };
  const isNumeric = (value) => typeof value === "number" || typeof value === "boolean" || host.isPin(value);
  const isNumericOrNothing = (value) => value === undefined || value === null || isNumeric(value);
  const add = (left, right) => {
    if (typeof left === "number" && typeof right === "number") return left + right;
    if (typeof left === "string" && typeof right === "string") return fitting(left + right);
    const a = valueOf(left);
    const b = valueOf(right);
    if (!isNumericOrNothing(a) || !isNumericOrNothing(b)) return fitting(str(a) + str(b));
    return a === undefined && b === undefined ? undefined : toNumber(a) + toNumber(b);
  };

  /** The interpreter's types as `===` tells them apart. */
  const kindOf = (value) => {
    if (typeof value !== "object") return typeof value;
    if (value === null) return "null";
    if (isArray(value)) return "array";
    if (isBuffer(value)) return "buffer";
    return host.isPin(value) ? "number" : "object";
  };
  /** `jsvMathsOp`: every operator but `+`, for operands of any type. */
  const operate = (operator, left, right) => {
    const a = valueOf(left);
    const b = valueOf(right);
    if (operator === "===") return kindOf(a) === kindOf(b) && compare("==", a, b);
    if (operator === "!==") return !(kindOf(a) === kindOf(b) && compare("==", a, b));
    if (operator === "!=") return !compare("==", a, b);
    if (operator === "==") return compare("==", a, b);
    if (a === undefined && b === undefined) return undefined;
    switch (operator) {
      case "-":
        return toNumber(a) - toNumber(b);
      case "*":
        return toNumber(a) * toNumber(b);
      case "/":
        return toNumber(a) / toNumber(b);
      case "%":
        return toNumber(a) % toNumber(b);
      case "&":
        return toInteger(a) & toInteger(b);
      case "|":
        return toInteger(a) | toInteger(b);
      case "^":
        return toInteger(a) ^ toInteger(b);
      case "<<":
        return toInteger(a) << toInteger(b);
      case ">>":
        return toInteger(a) >> toInteger(b);
      case ">>>":
        return toInteger(a) >>> toInteger(b);
      default:
        return compare(operator, a, b);
    }
  };
  /**
   * Numbers and nothing compare as numbers, a number and text as numbers, all else as text: "undefined" is the text of
   * undefined. Only whether two objects are the same is never a matter of their text.
   */
  const compare = (operator, a, b) => {
    if (typeof a === "string" && typeof b === "string") return order(operator, a, b);
    if (operator === "==") {
      if (a === undefined && b === undefined) return true;
      if ((a === undefined && b === null) || (a === null && b === undefined)) return true;
      if ((a === null) !== (b === null) && isNumericOrNothing(a) && isNumericOrNothing(b)) return false;
    }
    const text = isNumeric(a) && typeof b === "string" ? b : isNumeric(b) && typeof a === "string" ? a : undefined;
    if (text !== undefined) {
      const number = toNumber(text === b ? a : b);
      return isIntegerText(text, false) && (number | 0) === number
        ? order(operator, toInteger(a), toInteger(b))
        : order(operator, toNumber(a), toNumber(b));
    }
    if (isNumericOrNothing(a) && isNumericOrNothing(b)) return order(operator, toNumber(a), toNumber(b));
    const isReference = (value) => isArray(value) || isObject(value) || typeof value === "function";
    if (operator === "==" && (isReference(a) || isReference(b)) && isArray(a) === isArray(b)) return a === b;
    return order(operator, str(a), str(b));
  };
  /** Two numbers or two texts. */
  const order = (operator, a, b) => {
    if (operator === "==") return a === b;
    if (operator === "<") return a < b;
    if (operator === ">") return a > b;
    return operator === "<=" ? a <= b : a >= b;
  };

  method(Number.prototype, "toString", function (radix) {
    const value = +this;
    if (radix >= 2 && radix <= 36 && nativeIsInteger(radix)) {
      if (nativeIsInteger(value) && value < 2 ** 53 && value > -(2 ** 53))
        return nativeNumberToString.call(value, radix);
      return floatToString(value, radix);
    }
    return numberToString(value);
  });
  method(Number.prototype, "toFixed", function (decimals) {
    const places = decimals > 0 ? Math.min(20, trunc(decimals)) : 0;
    return floatToString(+this, 10, places);
  });
  delete Number.prototype.toPrecision;
  delete Number.prototype.toExponential;
  delete Number.prototype.toLocaleString;

  /** `stringToFloatWithRadix`: the number a text begins with and where it ends. A leading zero means octal. */
  const NUMBER_TEXT =
    /^[\t-\r ]*([+-]?)(?:0x([\da-f]*)|0o([0-7]*)|0b([01]*)|(0[0-7]*)(?![\d.])|(\d*\.?\d*(?:e[+-]?\d*)?))/i;
  const readNumber = (text) => {
    const match = NUMBER_TEXT.exec(text);
    const [all, sign, hexDigits, octalDigits, bits, octal, decimal] = match;
    const radix = hexDigits !== undefined ? 16 : bits !== undefined ? 2 : 8;
    const value =
      decimal !== undefined
        ? decimal === "" || decimal === "."
          ? NaN
          : host.textToFloat(decimal)
        : nativeParseInt(hexDigits || octalDigits || bits || octal || "0", radix);
    return { value: sign === "-" ? 0 - value : value, end: all.length };
  };
  const MAX_FLOAT_TEXT = 63;
  const MAX_INTEGER_TEXT = 31;
  const tooBig = () => makeError("Error", "String too big to convert to number");
  const textToNumber = (text) => {
    if (text.length > MAX_FLOAT_TEXT) throw tooBig();
    if (text === "") return 0;
    if (text === "Infinity" || text === "-Infinity") return +text;
    const { value, end } = readNumber(text);
    return end === text.length ? value : NaN;
  };
  /** `jsvIsStringNumericInt`. */
  const INTEGER_TEXT =
    /^[\t-\r ]*[+-]?(?:0x[\da-f.]+|0o[0-7.]+|0b[01.]+|0[89.][\d.]*|0[0-7][0-7.]*|[1-9.][\d.]*)$/i;
  const isIntegerText = (text, allowsPoint) =>
    INTEGER_TEXT.test(text) && text.split(".").length <= (allowsPoint ? 2 : 1);
  const NativeNumber = Number;
  /** `jsvGetFloat` */
  const toNumber = (value) => {
    if (typeof value === "number") return value;
    if (typeof value === "string") return textToNumber(value);
    if (value === null || typeof value === "boolean") return NativeNumber(value);
    if (typeof value !== "object") return NaN;
    if (host.isPin(value)) return value.valueOf();
    const list = value instanceof ArrayBuffer ? new Uint8Array(value) : value;
    if (!isArray(list) && !isBuffer(list)) return NaN;
    return list.length === 0 ? 0 : list.length === 1 ? toNumber(list[0]) : NaN;
  };
  /** `jsvGetInteger`: 32 bits; 0 for what is no number. */
  const toInteger = (value) => {
    if (typeof value === "number") return value | 0;
    if (typeof value !== "string") return toNumber(value) | 0;
    if (!isIntegerText(value, true)) return 0;
    if (value.length > MAX_INTEGER_TEXT) throw tooBig();
    return readNumber(value).value | 0;
  };
  const EspruinoNumber = function (value) {
    const number = arguments.length === 0 ? 0 : toNumber(value);
    return new.target ? new NativeNumber(number) : number;
  };
  EspruinoNumber.prototype = NativeNumber.prototype;
  method(NativeNumber.prototype, "constructor", EspruinoNumber);
  for (const name of ["NaN", "MAX_VALUE", "MIN_VALUE", "NEGATIVE_INFINITY", "POSITIVE_INFINITY"])
    define(EspruinoNumber, name, { value: name === "NaN" ? NaN : NativeNumber[name] });
  method(G, "Number", EspruinoNumber);

  method(G, "isNaN", function (value) {
    if (value === undefined || isObject(value)) return true;
    if (typeof value === "string") {
      if (value.trim() === "") return false;
    } else if (typeof value !== "number" && !isArray(value)) return false;
    const number = toNumber(value);
    return number !== number;
  });
  method(G, "parseInt", function (value, radix) {
    if (typeof value === "number" && value !== value) return NaN;
    const text = str(value);
    const base = radix === undefined || radix === 0 ? 0 : radix;
    const match = /^\s*([+-]?)(0[xX]|0[oO]|0[bB])?/.exec(text);
    const prefix = (match[2] || "").toLowerCase();
    let used = base;
    let rest = text.slice(match[0].length);
    if (!base) used = prefix === "0x" ? 16 : prefix === "0o" ? 8 : prefix === "0b" ? 0 : 10;
    else if (base === 16 && prefix === "0x") used = 16;
    else rest = text.slice(match[0].length - prefix.length);
    if (!used) return 0;
    let result = NaN;
    for (const char of rest) {
      const digit = "0123456789abcdefghijklmnopqrstuvwxyz".indexOf(char.toLowerCase());
      if (digit < 0 || digit >= used) break;
      result = (result === result ? result : 0) * used + digit;
    }
    return match[1] === "-" ? 0 - result : result;
  });
  method(G, "parseFloat", function (value) {
    const text = str(value);
    return text === "Infinity" || text === "-Infinity" ? +text : readNumber(text).value;
  });
  delete G.isFinite;
  method(G, "isFinite", function (value) {
    const number = toNumber(value);
    return number === number && number !== Infinity && number !== -Infinity;
  });

  // ---- Functions
  const functionInfos = new NativeWeakMap();
  const functionScopes = new NativeWeakMap();

  const functionText = (fn, limit) => {
    const info = functionInfos.get(fn);
    if (!info) return "() { [native code] }";
    const params = `(${info.params.join(",")}) `;
    const code = info.body.trim();
    if (code === "") return `${params}{}`;
    if (limit) return `${params}{ ... }`;
    const hasNewLine = code.includes("\n");
    const body = (info.isExpression ? "return " : "") + code;
    return `${params}${hasNewLine ? "{\n  " : "{"}${body}${hasNewLine ? "\n}" : "}"}`;
  };
  const functionToString = (fn) =>
    fn.toString === Function.prototype.toString ? `function ${functionText(fn)}` : str(fn.toString());
  method(Function.prototype, "toString", function () {
    return `function ${functionText(this)}`;
  });
  const NativeFunction = Function;
  const EspruinoFunction = function () {
    const values = [].slice.call(arguments).map(str);
    const body = values.length ? values.pop() : "";
    return host.evaluate(`(function(${values.join(",")}){${body}})`);
  };
  EspruinoFunction.prototype = NativeFunction.prototype;
  method(NativeFunction.prototype, "constructor", EspruinoFunction);
  method(G, "Function", EspruinoFunction);
  const nativeApply = NativeFunction.prototype.apply;
  const reflectApply = Reflect.apply;
  const MAX_APPLY_ARGUMENTS = 256;
  method(NativeFunction.prototype, "apply", function (thisValue, list) {
    if (list !== undefined && list !== null && list.length > MAX_APPLY_ARGUMENTS)
      throw makeError(
        "Error",
        `Array passed to Function.apply is too big! Maximum ${MAX_APPLY_ARGUMENTS} arguments, got ${list.length}`,
      );
    const before = enterStack(CALL_STACK);
    return leaveStack(before, reflectApply(nativeApply, this, [thisValue, list === null ? undefined : list]));
  });
  const nativeCall = NativeFunction.prototype.call;
  method(NativeFunction.prototype, "call", function () {
    const before = enterStack(CALL_STACK);
    return leaveStack(before, reflectApply(nativeCall, this, arguments));
  });

  // ---- Classes: fields stand on the prototype, `super` starts from `this`.
  const superError = () => makeError("SyntaxError", "Calling 'super' outside of class");
  const makeClass = (scope, parent, members) => {
    const holder = {};
    const list = members(holder);
    const entry = list.find((item) => item[0] === "constructor");
    if (parent !== undefined && typeof parent !== "function")
      throw makeError("SyntaxError", `'extends' argument should be a function, got ${typeName(parent)}`);
    const Class = entry
      ? entry[2]
      : function () {
          if (parent !== undefined && functionInfos.has(parent)) reflectApply(parent, this, arguments);
        };
    if (!entry) functionInfos.set(Class, { name: "", params: [], body: "", isExpression: false, start: 0, end: 0 });
    holder.constructor = Class;
    const prototype = Object.create(parent === undefined ? Object.prototype : parent.prototype);
    method(prototype, "constructor", Class);
    Class.prototype = prototype;
    for (const [kind, name, value] of list) {
      const target = kind.startsWith("static ") ? Class : prototype;
      const plain = kind.replace("static ", "");
      if (plain === "constructor") continue;
      if (plain === "get" || plain === "set") {
        const old = nativeDescriptor(target, name);
        define(target, name, { get: old && old.get, set: old && old.set, [plain]: value, configurable: true });
      } else if (plain === "field") target[name] = value;
      else method(target, name, value);
    }
    return Class;
  };
  const superCall = (holder, self, list) => {
    if (!holder) throw superError();
    const parent = nativeGetPrototypeOf(holder.constructor.prototype);
    if (!parent || parent === Object.prototype || !functionInfos.has(parent.constructor)) throw superError();
    return reflectApply(parent.constructor, self, list);
  };
  const superOf = (self) => {
    const own =
      typeof self === "function"
        ? self.prototype
        : self === undefined || self === null
          ? undefined
          : nativeGetPrototypeOf(self);
    const parent = own && nativeGetPrototypeOf(own);
    if (!parent) throw superError();
    return typeof self === "function" ? parent.constructor : parent;
  };

  // ---- Text of values: `jsfGetJSONWithCallback`
  const hex = (value, length) => nativeNumberToString.call(value, 16).toUpperCase().padStart(length, "0");
  const quote = (text, isJson) => {
    let out = '"';
    for (let i = 0; i < text.length; i++) {
      const code = text.charCodeAt(i);
      if (code === 10) out += "\\n";
      else if (code === 9) out += "\\t";
      else if (code === 8) out += "\\b";
      else if (code === 11 && !isJson) out += "\\v";
      else if (code === 12) out += "\\f";
      else if (code === 13) out += "\\r";
      else if (code === 92) out += "\\\\";
      else if (code === 34) out += '\\"';
      else if (code < 8 && !isJson && !/[0-7]/.test(text[i + 1] || "")) out += "\\" + code;
      else if (code < 32 || code >= 127) out += isJson ? "\\u" + hex(code, 4) : "\\x" + hex(code, 2);
      else out += text[i];
    }
    return out + '"';
  };

  const ITEMS_ON_LINE = 4;
  const LIMIT_AMOUNT = 15;
  const LIMITED_AMOUNT = 5;
  const LIMIT_STRING = 60;
  const LIMITED_STRING = 27;
  const LIMIT_TEXT = " ... ";

  const typeName = (value) => {
    if (value === null) return "null";
    if (value === undefined) return "undefined";
    if (isArray(value)) return "Array";
    if (typeof value === "function") return "Function";
    if (typeof value === "string") return "String";
    if (typeof value === "number") return "Number";
    if (typeof value === "boolean") return "bool";
    if (isView(value) || value instanceof ArrayBuffer) return className(value);
    return "Object";
  };
  const bufferClasses = [
    "Uint8Array",
    "Int8Array",
    "Uint8ClampedArray",
    "Uint16Array",
    "Int16Array",
    "Uint32Array",
    "Int32Array",
    "Float32Array",
    "Float64Array",
    "DataView",
    "ArrayBuffer",
  ].map((name) => [name, G[name]]);
  const className = (value) => {
    const found = bufferClasses.find((pair) => value instanceof pair[1]);
    return found ? found[0] : "Object";
  };

  const needsNewLine = (value) =>
    !(
      value === undefined ||
      value === null ||
      typeof value === "number" ||
      typeof value === "boolean" ||
      host.isPin(value)
    );
  const isIdentifier = (text) => /^[A-Za-z_$][\w$]*$/.test(text);

  /** Flags: `json some all pretty limit names dropQuotes`, see `FormatFlags` in realm.ts. */
  const format = (value, flags, whitespace = "  ") => {
    const busy = [];
    const newLine = (indent) => "\n" + whitespace.repeat(indent);
    const fields = (keys, read, indent, isFirst) => {
      let out = "";
      let first = isFirst;
      let needNewLine = false;
      let sinceNewLine = 0;
      for (const key of keys) {
        const descriptor = read(key);
        if (!descriptor || descriptor.get || descriptor.set) continue;
        const item = descriptor.value;
        if (flags.json && (typeof item === "function" || item === undefined)) continue;
        sinceNewLine++;
        if (!first) out += flags.pretty ? ", " : ",";
        let newNeeds = !!flags.some && needsNewLine(item);
        if (flags.some && sinceNewLine > ITEMS_ON_LINE) needNewLine = true;
        if (flags.all) {
          needNewLine = true;
          newNeeds = true;
        }
        if (needNewLine || newNeeds) {
          out += newLine(indent + 1);
          needNewLine = false;
          sinceNewLine = 0;
        }
        const bare = flags.dropQuotes && (/^(0|[1-9]\d*)$/.test(key) || (key.length < 63 && isIdentifier(key)));
        out += (bare ? key : quote(key, flags.json)) + (flags.pretty ? ": " : ":");
        first = false;
        out += write(item, indent + 1, key);
        needNewLine = newNeeds;
      }
      return { out, needNewLine };
    };
    const write = (item, indent, key, noToJson) => {
      if (item === undefined) return flags.json ? "null" : "undefined";
      if (item === null || typeof item === "boolean") return `${item}`;
      if (typeof item === "number") return flags.json && !(item - item === 0) ? "null" : numberToString(item);
      if (typeof item === "string" || (flags.json && host.isPin(item))) {
        const text = str(item);
        if (flags.limit && text.length > LIMIT_STRING)
          return quote(text.slice(0, LIMITED_STRING)) + LIMIT_TEXT + quote(text.slice(-LIMITED_STRING));
        return quote(text, flags.json);
      }
      if (host.isPin(item)) return str(item);
      if (typeof item === "function") return flags.json ? "undefined" : `function ${functionText(item, flags.limit)}`;
      if (busy.includes(item)) return LIMIT_TEXT;
      if (brokenValues.has(item)) return str(item);
      busy.push(item);
      try {
        if (isArray(item)) return writeArray(item, indent);
        if (isView(item) || item instanceof ArrayBuffer) return writeBuffer(item, indent);
        const device = !flags.json && host.deviceName(item);
        if (device) return device;
        if (flags.names) {
          const prototype = nativeGetPrototypeOf(item);
          const own = prototype && prototype !== Object.prototype && nativeDescriptor(prototype, "constructor");
          if (own && own.value !== Object) {
            const name = host.globalNameOf(own.value);
            const prefix = name === undefined ? "" : `${name}: `;
            if (typeof item.toString === "function" && item.toString !== Object.prototype.toString)
              return `${prefix}${str(item.toString())}`;
            return `${prefix}${writeObject(item, indent)}`;
          }
        }
        if (flags.json && !noToJson && typeof item.toJSON === "function") {
          const replaced = item.toJSON(key === undefined ? undefined : str(key));
          if (replaced === item) busy.pop();
          return write(replaced, indent, undefined, true);
        }
        return writeObject(item, indent);
      } finally {
        if (busy[busy.length - 1] === item) busy.pop();
      }
    };
    const writeObject = (item, indent) => {
      const names =
        item === G ? host.globalNames() : ownNames(item).filter((name) => nativeDescriptor(item, name).enumerable);
      const { out, needNewLine } = fields(names, (name) => nativeDescriptor(item, name), indent, true);
      return (flags.pretty ? "{ " : "{") + out + (needNewLine ? newLine(indent) : "") + (flags.pretty ? " }" : "}");
    };
    const writeArray = (item, indent) => {
      let out = flags.pretty ? "[ " : "[";
      const length = item.length;
      const limited = flags.limit && length > LIMIT_AMOUNT;
      let needNewLine = false;
      let first = true;
      for (let i = 0; i < length; i++) {
        if (limited && i >= LIMITED_AMOUNT && i < length - LIMITED_AMOUNT) continue;
        if (!first) out += flags.pretty ? ", " : ",";
        first = false;
        if (limited && i === length - LIMITED_AMOUNT) out += LIMIT_TEXT;
        let newNeeds = !!flags.some && needsNewLine(item[i]);
        if (flags.all) {
          needNewLine = true;
          newNeeds = true;
        }
        if (needNewLine || newNeeds) {
          out += newLine(indent + 1);
          needNewLine = false;
        }
        out += write(item[i], indent + 1, i);
        needNewLine = newNeeds;
      }
      if (flags.pretty) {
        const extra = nativeKeys(item).filter((name) => !/^\d+$/.test(name));
        const result = fields(extra, (name) => nativeDescriptor(item, name), indent, first);
        out += result.out;
        if (extra.length) needNewLine = result.needNewLine;
      }
      return out + (needNewLine ? newLine(indent) : "") + (flags.pretty ? " ]" : "]");
    };
    const writeBuffer = (item, indent) => {
      let name = className(item);
      const values = item instanceof ArrayBuffer || name === "DataView" ? new Uint8Array(item.buffer || item) : item;
      const isBuffer = name === "ArrayBuffer";
      if (!flags.json && !values.some((value) => value !== 0)) return `new ${name}(${values.length})`;
      if (isBuffer) name = "Uint8Array";
      let out = flags.json ? "[" : `new ${name}([`;
      const limited = flags.limit && values.length > LIMIT_AMOUNT;
      for (let i = 0; i < values.length; i++) {
        if (limited && i >= LIMITED_AMOUNT && i < values.length - LIMITED_AMOUNT) continue;
        if (i > 0) out += flags.pretty ? ", " : ",";
        if (flags.all) out += newLine(indent + 1);
        if (limited && i === values.length - LIMITED_AMOUNT) out += LIMIT_TEXT;
        out += write(values[i], indent + 1);
      }
      if (flags.all) out += newLine(indent);
      return out + (flags.json ? "]" : "])") + (isBuffer && !flags.json ? ".buffer" : "");
    };
    return write(value, 0);
  };
  // ---- JSON
  const JSON_TOKEN = /[ \t\r\n\v\f]*(?:\/\/[^\n]*[ \t\r\n]*|\/\*[\s\S]*?\*\/[ \t\r\n]*)*/y;
  const parseJson = (source) => {
    const text = str(source);
    let position = 0;
    let token;
    const tokenText = () => {
      if (token.kind === "EOF") return "EOF";
      if (token.kind === "WORD") return token.value;
      if (token.kind === "UNFINISHED") return "UNFINISHED STRING";
      return token.kind.length > 1 ? token.kind : "'" + token.kind + "'";
    };
    let tokenStart = 0;
    const next = () => {
      JSON_TOKEN.lastIndex = position;
      position += JSON_TOKEN.exec(text)[0].length;
      tokenStart = position;
      if (position >= text.length || text[position] === "\0") {
        token = { kind: "EOF" };
        return;
      }
      const char = text[position];
      if (/[A-Za-z_$]/.test(char)) {
        const value = /^[\w$]+/.exec(text.slice(position, position + 200))[0];
        position += value.length;
        token = ["true", "false", "null", "undefined"].includes(value)
          ? { kind: "WORD", value }
          : { kind: "ID", value };
        return;
      }
      const numberMatch = /^(0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO][0-7]+)|^(\d+\.\d*|\.\d+|\d+)([eE][+-]?\d+)?/.exec(
        text.slice(position, position + 400),
      );
      if (numberMatch) {
        const raw = numberMatch[0];
        position += raw.length;
        const isFloat = numberMatch[2] !== undefined && (/\./.test(numberMatch[2]) || numberMatch[3] !== undefined);
        token = isFloat
          ? { kind: "FLOAT", value: host.textToFloat(raw) }
          : {
              kind: "INT",
              value: raw.length > 15 ? NativeNumber(NativeBigInt.asIntN(64, NativeBigInt(raw))) : NativeNumber(raw),
            };
        return;
      }
      if (char === '"' || char === "'") {
        position++;
        let value = "";
        while (position < text.length && text[position] !== char && text[position] !== "\n") {
          if (text[position] !== "\\") {
            // One piece up to the next quote or escape: strings are most of what is parsed.
            const start = position;
            while (
              position < text.length &&
              text[position] !== char &&
              text[position] !== "\\" &&
              text[position] !== "\n"
            )
              position++;
            value += text.slice(start, position);
            continue;
          }
          position++;
          const escape = text[position++];
          if (escape === "n") value += "\n";
          else if (escape === "b") value += "\b";
          else if (escape === "f") value += "\f";
          else if (escape === "r") value += "\r";
          else if (escape === "t") value += "\t";
          else if (escape === "v") value += "\v";
          else if (escape === "u" || escape === "x") {
            const length = escape === "u" ? 4 : 2;
            const digits = /^[0-9a-fA-F]*/.exec(text.slice(position, position + length))[0];
            position += digits.length;
            if (digits.length < length) throw makeError("Error", "Invalid escape sequence");
            value += fromCharCode(nativeParseIntHex(digits) & 0xff);
          } else if (escape >= "0" && escape <= "7") {
            const digits = /^[0-7]{1,3}/.exec(text.slice(position - 1, position + 2))[0];
            position += digits.length - 1;
            let code = 0;
            for (const digit of digits) code = code * 8 + +digit;
            value += fromCharCode(code & 0xff);
          } else if (escape !== undefined) value += escape;
        }
        if (text[position] !== char) token = { kind: "UNFINISHED", value };
        else {
          position++;
          token = { kind: "STRING", value };
        }
        return;
      }
      position++;
      token = { kind: char };
    };
    const syntax = (message) => {
      const error = makeError("SyntaxError", message);
      error.stack = host.frame(text, tokenStart);
      return error;
    };
    const match = (kind) => {
      if (token.kind !== kind) throw syntax(`Got ${tokenText()} expected '${kind}'`);
      next();
    };
    const nothing = {};
    const parse = () => {
      const { kind, value } = token;
      if (kind === "WORD" && value !== "undefined") {
        next();
        return value === "null" ? null : value === "true";
      }
      if (kind === "-") {
        next();
        if (token.kind !== "INT" && token.kind !== "FLOAT") return nothing;
        return 0 - parse();
      }
      if (kind === "INT" || kind === "FLOAT" || kind === "STRING") {
        next();
        return value;
      }
      if (kind === "[") {
        const array = [];
        next();
        while (token.kind !== "]") {
          const item = parse();
          if (item === nothing) return nothing;
          if (token.kind !== "]") match(",");
          array.push(item);
        }
        match("]");
        return array;
      }
      if (kind === "{") {
        const object = {};
        next();
        while (token.kind === "STRING" || token.kind === "INT" || token.kind === "ID" || token.kind === "WORD") {
          if (token.kind !== "STRING") throw syntax(`Got ${tokenText()} expected STRING`);
          const name = token.value;
          next();
          match(":");
          const item = parse();
          if (item === nothing) return nothing;
          if (token.kind !== "}") match(",");
          if (name !== "__proto__" && name !== "constructor" && !hasOwn(object, name))
            define(object, name, { value: item, writable: true, configurable: true, enumerable: true });
        }
        match("}");
        return object;
      }
      throw syntax(`Expecting valid value, got ${tokenText()}`);
    };
    next();
    const result = parse();
    return result === nothing ? undefined : result;
  };
  const nativeParseIntHex = (digits) => nativeParseInt(digits, 16);
  const nativeHasOwn = Object.prototype.hasOwnProperty;
  const hasOwn = (object, name) => nativeHasOwn.call(object, name);
  method(JSON, "parse", parseJson);
  method(JSON, "stringify", function (value, replacer, space) {
    let whitespace = "";
    if (typeof space === "number") whitespace = " ".repeat(space < 0 ? 0 : space > 10 ? 10 : trunc(space));
    else if (space !== undefined && space !== null) whitespace = str(space).slice(0, 10);
    const flags = { json: true };
    if (whitespace) {
      flags.all = true;
      flags.pretty = true;
    }
    return format(value, flags, whitespace);
  });

  // ---- Regular expressions: a port of the interpreter's matcher.
  const MAX_GROUPS = 9;
  const isSpace = (char) =>
    char === " " || char === "\t" || char === "\n" || char === "\r" || char === "\v" || char === "\f";
  const isDigit = (char) => char >= "0" && char <= "9" && char !== "";
  const isAlpha = (char) => (char >= "a" && char <= "z") || (char >= "A" && char <= "Z") || char === "_";
  const lower = (char) => (char >= "A" && char <= "Z" ? fromCharCode(char.charCodeAt(0) + 32) : char);

  /** The array of a match, or null. Only `* +`, classes, captures, `^ $`, top-level `|`. */
  const matchRegExp = (pattern, text, from, ignoreCase) => {
    const at = (index) => (index < text.length ? text[index] : "\0");
    const cloneInfo = (info) => ({
      start: info.start,
      groups: info.groups,
      starts: info.starts.slice(),
      ends: info.ends.slice(),
    });
    let rangeMatch = false;
    let rangeFirst;

    const matchCharacter = (p, t) => {
      let length = 1;
      let char = at(t);
      if (pattern[p] === ".") return [true, 1];
      if (pattern[p] === "[") {
        rangeMatch = true;
        const inverted = pattern[p + 1] === "^";
        if (inverted) length++;
        let any = false;
        while (p + length < pattern.length && pattern[p + length] !== "]") {
          if (pattern[p + length] === ".") {
            any = any || char === ".";
            length++;
          } else {
            const [matched, used] = matchCharacter(p + length, t);
            any = any || matched;
            length += used;
          }
        }
        if (pattern[p + length] !== "]") throw makeError("Error", "Unfinished character set in RegEx");
        length++;
        rangeMatch = false;
        return [any !== inverted, length];
      }
      let wanted = pattern[p];
      if (wanted === "\\") {
        length = 2;
        wanted = p + 1 < pattern.length ? pattern[p + 1] : "\0";
        if (wanted === "d") return [isDigit(char), length];
        if (wanted === "D") return [!isDigit(char), length];
        if (wanted === "s") return [isSpace(char), length];
        if (wanted === "S") return [!isSpace(char), length];
        if (wanted === "w") return [isDigit(char) || isAlpha(char), length];
        if (wanted === "W") return [!(isDigit(char) || isAlpha(char)), length];
        if (wanted >= "1" && wanted <= "9") throw makeError("Error", "Backreferences not supported");
        const simple = { f: "\f", b: "\b", n: "\n", r: "\r", t: "\t", v: "\v", 0: "\0" }[wanted];
        if (simple !== undefined) wanted = simple;
        else if (wanted === "x" && p + 3 < pattern.length) {
          length = 4;
          wanted = fromCharCode(nativeParseIntHex(pattern.slice(p + 2, p + 4)) & 0xff);
        }
      }
      if (rangeMatch && pattern[p + length] === "-" && pattern[p + length + 1] !== "]") {
        rangeFirst = wanted;
        length++;
        const [matched, used] = matchCharacter(p + length, t);
        return [matched, length + used];
      }
      if (ignoreCase) {
        char = lower(char);
        wanted = lower(wanted);
      }
      if (rangeFirst !== undefined) {
        const first = ignoreCase ? lower(rangeFirst) : rangeFirst;
        rangeFirst = undefined;
        return [char >= first && char <= wanted && first < wanted, length];
      }
      return [wanted === char, length];
    };

    const found = (t, info) => {
      const result = [text.slice(info.start, t)];
      for (let i = 0; i < info.groups; i++) result.push(text.slice(info.starts[i], info.ends[i]));
      result.index = info.start;
      result.input = text;
      return result;
    };
    const notFound = (position, info) => {
      let p = position;
      while (p < pattern.length && pattern[p] !== "|") {
        if (pattern[p] === "\\") {
          p++;
          if (p >= pattern.length) return null;
        }
        p++;
      }
      if (pattern[p] !== "|") return null;
      return matchHere(p + 1, info.start, info);
    };
    // What the interpreter does by recursion at the end of a branch is a loop here: its depth is bounded by its stack.
    const matchHere = (position, textPosition, given) => {
      let p = position;
      let t = textPosition;
      const info = cloneInfo(given);
      for (;;) {
        if (p >= pattern.length || pattern[p] === "|") return found(t, info);
        if (pattern[p] === "^") {
          if (t !== 0) return null;
          p++;
          continue;
        }
        if (pattern[p] === "$") {
          if (t >= text.length) {
            p++;
            continue;
          }
          return notFound(p + 1, info);
        }
        if (pattern[p] === "(") {
          info.starts[info.groups] = t;
          info.ends[info.groups] = t;
          if (info.groups < MAX_GROUPS) info.groups++;
          p++;
          continue;
        }
        if (pattern[p] === ")") {
          if (info.groups > 0) info.ends[info.groups - 1] = t;
          p++;
          continue;
        }
        let [matched, length] = matchCharacter(p, t);
        const operator = pattern[p + length];
        if (operator === "*" || operator === "+") {
          if (!matched && operator === "+") return notFound(p + length + 1, info);
          const after = p + length + 1;
          let last = matchHere(after, t, info);
          while (t < text.length && matched) {
            t++;
            [matched, length] = matchCharacter(p, t);
            const longer = matchHere(after, t, info);
            if (longer) last = longer;
          }
          return last;
        }
        if (t < text.length && matched) {
          t++;
          p += length;
          continue;
        }
        return notFound(p + length, info);
      }
    };
    for (let start = from; ; start++) {
      const result = matchHere(0, start, { start, groups: 0, starts: [], ends: [] });
      if (result || start + 1 >= text.length) return result;
    }
  };

  const EspruinoRegExp = function (source, flags) {
    if (typeof source !== "string")
      throw makeError("TypeError", `Expecting String as first argument, got ${typeName(source)}`);
    const self = this instanceof EspruinoRegExp ? this : Object.create(EspruinoRegExp.prototype);
    self.source = source;
    if (flags !== undefined) self.flags = flags;
    self.lastIndex = 0;
    return self;
  };
  const hasFlag = (regexp, flag) => typeof regexp.flags === "string" && regexp.flags.includes(flag);
  const exec = (regexp, argument) => {
    const text = str(argument);
    if (regexp.lastIndex > text.length) return undefined;
    const match = matchRegExp(regexp.source, text, regexp.lastIndex, hasFlag(regexp, "i"));
    regexp.lastIndex = match && hasFlag(regexp, "g") ? match.index + match[0].length : 0;
    return match;
  };
  method(EspruinoRegExp.prototype, "exec", function (text) {
    return exec(this, text);
  });
  method(EspruinoRegExp.prototype, "test", function (text) {
    return !!exec(this, text);
  });
  method(G, "RegExp", EspruinoRegExp);
  const isRegExp = (value) => value instanceof EspruinoRegExp;

  // ---- Strings
  const S = String.prototype;
  const keep = (object, names) => {
    for (const name of ownNames(object)) if (!names.includes(name)) delete object[name];
  };
  const nativeIndexOf = S.indexOf;
  keep(
    S,
    (
      "length constructor charAt charCodeAt concat endsWith includes indexOf lastIndexOf match padEnd padStart " +
      "repeat replace replaceAll slice split startsWith substr substring toLowerCase toString toUpperCase trim " +
      "valueOf"
    ).split(" "),
  );
  const NativeString = String;
  const EspruinoString = function (value) {
    const text = arguments.length === 0 ? "" : str(value);
    return new.target ? new NativeString(text) : text;
  };
  EspruinoString.prototype = S;
  method(S, "constructor", EspruinoString);
  method(EspruinoString, "fromCharCode", function () {
    let out = "";
    for (let i = 0; i < arguments.length; i++) out += fromCharCode(toNumber(arguments[i]) & 0xff);
    return out;
  });
  method(G, "String", EspruinoString);
  for (const name of ["repeat", "padStart", "padEnd"]) {
    const native = S[name];
    method(S, name, function (count, text) {
      if (count > host.memoryBytes) throw host.interrupt("memory");
      if (name === "repeat" && toInteger(count) < 0) throw makeError("Error", "Invalid count value");
      const padding = text === undefined ? undefined : str(text);
      // The interpreter pads with nothing until the text is long enough.
      if (name !== "repeat" && padding === "" && count > str(this).length) throw host.interrupt("steps");
      return native.call(str(this), count > 0 ? count : 0, padding);
    });
  }
  /**
   * `jswrap_string_indexOf`: the comparison ends with the text, so that its last characters match where `wanted` begins
   * with them; and `from` is limited to one after the last place where `wanted` fits.
   */
  const indexOf = (text, wanted, from) => {
    if (wanted.length > text.length) return -1;
    const end = text.length - wanted.length + 1;
    const start = from < 0 ? 0 : from > end ? end : from;
    if (start >= text.length) return -1;
    const index = nativeIndexOf.call(text, wanted, start);
    if (index >= 0) return index;
    for (let i = start > end ? start : end; i < text.length; i++) if (wanted.startsWith(text.slice(i))) return i;
    return -1;
  };
  method(S, "indexOf", function (wanted, from) {
    return indexOf(str(this), str(wanted), isNumeric(from) ? toInteger(from) : 0);
  });
  method(S, "includes", function (wanted, from) {
    return indexOf(str(this), str(wanted), isNumeric(from) ? toInteger(from) : 0) >= 0;
  });
  method(S, "concat", function () {
    let out = str(this);
    for (let i = 0; i < arguments.length; i++) out += str(arguments[i]);
    return out;
  });
  method(S, "match", function (pattern) {
    if (pattern === undefined) return undefined;
    const text = str(this);
    if (isRegExp(pattern)) {
      pattern.lastIndex = 0;
      let match = exec(pattern, text);
      if (!hasFlag(pattern, "g")) return match;
      const all = [];
      while (match) {
        all.push(match[0]);
        pattern.lastIndex = match.index + match[0].length + (match[0].length ? 0 : 1);
        match = exec(pattern, text);
      }
      pattern.lastIndex = 0;
      return all;
    }
    const wanted = str(pattern);
    const index = indexOf(text, wanted, 0);
    if (index < 0) return null;
    const result = [wanted];
    result.index = index;
    result.input = wanted;
    return result;
  });
  const replace = (text, pattern, replacement, all) => {
    if (!isRegExp(pattern)) {
      const wanted = str(pattern);
      const by = str(replacement);
      let result = text;
      let index = indexOf(result, wanted, 0);
      while (index >= 0) {
        result = fitting(result.slice(0, index) + by + result.slice(index + wanted.length));
        if (!all) return result;
        // Two texts of which one ends as the other begins are found again and again.
        step();
        index = indexOf(result, wanted, index + by.length);
      }
      return result;
    }
    const global = all || hasFlag(pattern, "g");
    let out = "";
    let lastIndex = 0;
    pattern.lastIndex = 0;
    let match = exec(pattern, text);
    while (match) {
      out += text.slice(lastIndex, match.index);
      if (typeof replacement === "function") {
        const list = match.slice(0, 11);
        list.push(match.index, match.input);
        out += str(reflectApply(replacement, undefined, list));
      } else {
        out += nativeReplaceDollar(str(replacement), match);
      }
      lastIndex = match.index + match[0].length;
      const length = match[0].length;
      match = null;
      if (global) {
        pattern.lastIndex = lastIndex + (length ? 0 : 1);
        match = exec(pattern, text);
      }
    }
    if (global) pattern.lastIndex = 0;
    return out + text.slice(lastIndex);
  };
  const nativeReplaceDollar = (text, match) => {
    let out = "";
    for (let i = 0; i < text.length; i++) {
      if (text[i] !== "$") out += text[i];
      else {
        const char = i + 1 < text.length ? text[++i] : "\0";
        out += char > "0" && char <= "9" && match[char] !== undefined ? match[char] : "$" + char;
      }
    }
    return out;
  };
  method(S, "replace", function (pattern, replacement) {
    return replace(str(this), pattern, replacement, false);
  });
  method(S, "replaceAll", function (pattern, replacement) {
    return replace(str(this), pattern, replacement, true);
  });
  /** Each place counts, also inside the separator before: what would be a part of negative length is all the rest. */
  const splitText = (text, by) => {
    const parts = [];
    let last = 0;
    for (let i = nativeIndexOf.call(text, by); i >= 0; i = nativeIndexOf.call(text, by, i + 1)) {
      parts.push(i < last ? text.slice(last) : text.slice(last, i));
      last = i + by.length;
    }
    parts.push(text.slice(last));
    return parts;
  };
  method(S, "split", function (separator) {
    const text = str(this);
    if (separator === undefined) return [text];
    if (!isRegExp(separator)) {
      const by = str(separator);
      // The loop of the interpreter ends before its first turn there.
      if (by.length > text.length + 1) return [];
      return by === "" ? [...text] : splitText(text, by);
    }
    const parts = [];
    let last = 0;
    separator.lastIndex = 0;
    let match = exec(separator, text);
    while (match) {
      parts.push(text.slice(last, match.index));
      last = match.index + match[0].length;
      separator.lastIndex = last;
      // An empty match at one place would be found for ever; the board runs out of memory there.
      if (match[0] === "") throw host.interrupt("memory");
      match = exec(separator, text);
    }
    separator.lastIndex = 0;
    if (last <= text.length) parts.push(text.slice(last));
    return parts;
  });
  const asciiCase = (name, low, high, shift) => {
    method(S, name, function () {
      const text = str(this);
      let out = "";
      for (let i = 0; i < text.length; i++) {
        const code = text.charCodeAt(i);
        out += code >= low && code <= high ? fromCharCode(code + shift) : text[i];
      }
      return out;
    });
  };
  asciiCase("toLowerCase", 65, 90, 32);
  asciiCase("toUpperCase", 97, 122, -32);

  // ---- Arrays
  const A = Array.prototype;
  keep(
    A,
    (
      "length constructor concat every fill filter find findIndex forEach includes indexOf join map pop push " +
      "reduce reverse shift slice some sort splice toString unshift"
    ).split(" "),
  );
  const NativeArray = Array;
  const EspruinoArray = function (first) {
    if (arguments.length === 1 && typeof first === "number" && (first < 0 || !nativeIsInteger(first)))
      throw makeError("Error", "Invalid array length");
    return reflectApply(NativeArray, undefined, arguments);
  };
  EspruinoArray.prototype = A;
  method(A, "constructor", EspruinoArray);
  method(EspruinoArray, "isArray", isArray);
  method(G, "Array", EspruinoArray);
  const joinArray = (array, separator) => {
    const glue = separator === undefined ? "," : str(separator);
    let out = "";
    for (let i = 0; i < array.length; i++) {
      if (i) out += glue;
      if (array[i] !== undefined && array[i] !== null) out += str(array[i]);
    }
    return out;
  };
  method(A, "join", function (separator) {
    return joinArray(this, separator);
  });
  method(A, "toString", function () {
    return joinArray(this);
  });
  const sortArray = (array, compareFunction) => {
    const stackBefore = enterStack(CALLBACK_STACK);
    if (compareFunction !== undefined && typeof compareFunction !== "function")
      throw makeError("Error", `Expecting compare function, got ${typeName(compareFunction)}`);
    const compare = (a, b) => {
      if (a === undefined) return 1;
      if (b === undefined) return -1;
      if (compareFunction) {
        const order = toNumber(compareFunction(a, b));
        return order === 0 ? 0 : order < 0 ? -1 : 1;
      }
      const left = str(a);
      const right = str(b);
      return left < right ? -1 : left > right ? 1 : 0;
    };
    // The interpreter's own quicksort, so that equal items end up where they do on the board.
    const sort = (head, count) => {
      let n = count;
      if (n < 2) return;
      let pivot = head;
      if (n > 10) {
        const mid = head + (n >> 1);
        const high = head + n - 1;
        const [lowValue, midValue, highValue] = [array[head], array[mid], array[high]];
        const lowMid = compare(lowValue, midValue);
        const midHigh = compare(midValue, highValue);
        const lowHigh = compare(lowValue, highValue);
        if ((lowMid <= 0 && midHigh <= 0) || (lowHigh <= 0 && midHigh >= 0)) {
          array[pivot] = midValue;
          array[mid] = lowValue;
        } else if ((lowMid >= 0 && lowHigh <= 0) || (midHigh >= 0 && lowHigh >= 0)) {
          array[pivot] = highValue;
          array[high] = lowValue;
        }
      }
      let pivotLowest = true;
      const pivotValue = array[pivot];
      let low = 0;
      let high = 0;
      let it = head + 1;
      while (--n) {
        const value = array[it];
        const order = compare(value, pivotValue);
        if (order <= 0) {
          if (order < 0) pivotLowest = false;
          low++;
          array[pivot] = value;
          pivot++;
          array[it] = array[pivot];
          array[pivot] = pivotValue;
        } else high++;
        it++;
      }
      sort(pivot + 1, high);
      if (!pivotLowest) sort(head, low);
    };
    sort(0, array.length);
    return leaveStack(stackBefore, array);
  };
  method(A, "sort", function (compareFunction) {
    return sortArray(this, compareFunction);
  });
  const needFunction = (name) => {
    const native = A[name];
    method(A, name, function (callback) {
      if (typeof callback !== "function") throw makeError("Error", "First argument must be a function");
      const before = enterStack(CALLBACK_STACK);
      return leaveStack(before, reflectApply(native, this, arguments));
    });
  };
  for (const name of ["map", "forEach", "filter", "some", "every", "find", "findIndex", "reduce"]) needFunction(name);
  const nativeReduce = A.reduce;
  method(A, "reduce", function () {
    if (this.length === 0 && arguments.length < 2)
      throw makeError("Error", "Used on empty array with no initial value");
    return reflectApply(nativeReduce, this, arguments);
  });

  // ---- Typed arrays
  const TA = nativeGetPrototypeOf(Uint8Array.prototype);
  const TypedArray = TA.constructor;
  const nativeSet = TA.set;
  const typedMap = TA.map;
  for (const name of [
    "at",
    "copyWithin",
    "entries",
    "findLast",
    "findLastIndex",
    "keys",
    "lastIndexOf",
    "reduceRight",
    "toLocaleString",
    "toReversed",
    "toSorted",
    "with",
  ])
    delete TA[name];
  delete TypedArray.from;
  delete TypedArray.of;
  delete G.BigInt64Array;
  delete G.BigUint64Array;
  method(TA, "join", function (separator) {
    return joinArray(this, separator);
  });
  method(TA, "toString", function () {
    return joinArray(this);
  });
  method(TA, "sort", function (compareFunction) {
    return sortArray(this, compareFunction === undefined ? (a, b) => a - b : compareFunction);
  });
  // `set` takes text too: its bytes.
  method(TA, "set", function (source, offset) {
    const values = typeof source === "string" ? bytesOf(source) : source;
    const start = offset === undefined ? 0 : offset;
    const room = this.length - start;
    // What does not fit is left out.
    const fitting = values.length <= room ? values : room <= 0 ? [] : values.slice(0, room);
    reflectApply(nativeSet, this, [fitting, room <= 0 ? 0 : start]);
  });
  method(TA, "map", typedMap);
  const bytesOf = (text) => {
    const bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    return bytes;
  };
  // Other than `set`, a constructor takes no text.
  for (const [name, Native] of bufferClasses) {
    if (name === "DataView" || name === "ArrayBuffer") continue;
    const Wrapped = function (source, offset, length) {
      if (typeof source === "string") throw makeError("Error", "Unsupported first argument of type String");
      const bytes = (typeof source === "number" ? source : 0) * Native.BYTES_PER_ELEMENT;
      if (bytes > host.memoryBytes) throw host.interrupt("memory");
      return arguments.length < 2 ? new Native(source) : new Native(source, offset, length);
    };
    Wrapped.prototype = Native.prototype;
    method(Native.prototype, "constructor", Wrapped);
    define(Wrapped, "BYTES_PER_ELEMENT", { value: Native.BYTES_PER_ELEMENT });
    method(G, name, Wrapped);
  }
  for (const name of ["slice", "resize", "transfer", "transferToFixedLength", "resizable", "maxByteLength", "detached"])
    delete ArrayBuffer.prototype[name];
  for (const name of ["getBigInt64", "setBigInt64", "getBigUint64", "setBigUint64"]) delete DataView.prototype[name];
  // ---- Objects
  keep(
    Object,
    (
      "length name prototype assign create defineProperties defineProperty entries fromEntries " +
      "getOwnPropertyDescriptor getOwnPropertyDescriptors getOwnPropertyNames getPrototypeOf keys setPrototypeOf " +
      "values"
    ).split(" "),
  );
  const nativeGetOwnPropertyDescriptor = nativeDescriptor;
  method(Object, "getOwnPropertyDescriptor", function (object, name) {
    const found = nativeGetOwnPropertyDescriptor(object, name);
    if (!found) return undefined;
    const result = {
      writable: found.writable !== false,
      enumerable: found.enumerable,
      configurable: found.configurable,
    };
    if (found.get || found.set) {
      result.get = found.get;
      result.set = found.set;
    } else result.value = found.value;
    return result;
  });
  method(Object, "defineProperty", function (object, name, descriptor) {
    if ((typeof object !== "object" && typeof object !== "function") || object === null)
      throw makeError("Error", `First argument must be Object, Function or Array, got ${typeName(object)}`);
    if (typeof descriptor !== "object" || descriptor === null)
      throw makeError("Error", `Property description must be Object, got ${typeName(descriptor)}`);
    const key = str(name);
    const result = { configurable: true, enumerable: true };
    if (descriptor.get || descriptor.set) {
      result.get = descriptor.get;
      result.set = descriptor.set;
    } else {
      result.value = descriptor.value;
      result.writable = descriptor.writable !== false;
    }
    define(object, key, result);
    return object;
  });
  method(Object, "defineProperties", function (object, descriptors) {
    for (const name of nativeKeys(descriptors)) Object.defineProperty(object, name, descriptors[name]);
    return object;
  });
  method(Object, "keys", function (object) {
    return object === null || object === undefined ? [] : nativeKeys(object);
  });
  for (const name of [
    "__defineGetter__",
    "__defineSetter__",
    "__lookupGetter__",
    "__lookupSetter__",
    "isPrototypeOf",
    "propertyIsEnumerable",
    "toLocaleString",
  ])
    delete Object.prototype[name];
  method(Object.prototype, "toString", function () {
    return this === null || this === undefined ? `${this}` : "[object Object]";
  });

  // Every object of the interpreter can have listeners; `emit` queues, the queue runs when the board is idle.
  const listenersOf = new NativeWeakMap();
  const checkEventTarget = (target, name) => {
    if ((typeof target !== "object" && typeof target !== "function") || target === null)
      throw makeError("TypeError", "Parent must be an object - not a String, Integer, etc");
    if (typeof name !== "string") throw makeError("TypeError", "First argument must be String");
  };
  const listenersFor = (target) => {
    let all = listenersOf.get(target);
    if (!all) listenersOf.set(target, (all = new NativeMap()));
    return all;
  };
  method(Object.prototype, "on", function (name, listener) {
    checkEventTarget(this, name);
    if (typeof listener !== "function") throw makeError("TypeError", "Second argument must be a function or a String");
    const all = listenersFor(this);
    all.set(name, (all.get(name) || []).concat([listener]));
  });
  method(Object.prototype, "addListener", Object.prototype.on);
  method(Object.prototype, "prependListener", function (name, listener) {
    checkEventTarget(this, name);
    const all = listenersFor(this);
    all.set(name, [listener].concat(all.get(name) || []));
  });
  method(Object.prototype, "clone", function () {
    if (isArray(this) || typeof this === "string") return this.slice();
    return Object.assign(Object.create(nativeGetPrototypeOf(this)), this);
  });
  method(Object.prototype, "emit", function (name) {
    checkEventTarget(this, name);
    emit(this, name, [].slice.call(arguments, 1));
  });
  method(Object.prototype, "removeListener", function (name, listener) {
    checkEventTarget(this, name);
    const all = listenersFor(this);
    all.set(
      name,
      (all.get(name) || []).filter((item) => item !== listener),
    );
  });
  method(Object.prototype, "removeAllListeners", function (name) {
    const all = listenersFor(this);
    if (name === undefined) all.clear();
    else all.delete(name);
  });
  const listeners = (target, name) => {
    const all = listenersOf.get(target);
    return (all && all.get(name)) || [];
  };
  const emit = (target, name, list) => {
    host.onEmit(target, name, list);
    for (const listener of listeners(target, name)) host.queue(() => reflectApply(listener, target, list));
  };

  // ---- Promise: resolved from the board's event queue, one step at a time.
  const PENDING = 0;
  const FULFILLED = 1;
  const REJECTED = 2;
  const states = new NativeWeakMap();
  const seal = (promise, value, resolving) => {
    const state = states.get(promise);
    promise.state = resolving ? FULFILLED : REJECTED;
    const reactions = resolving ? state.then : state.catch;
    if (!reactions.length) {
      if (!resolving) {
        const error = makeError("Error", `Unhandled promise rejection: ${str(value)}`);
        if (isRealmError(value)) error.stack = value.stack;
        host.report(error);
      }
      return;
    }
    for (const reaction of reactions) queueReaction(reaction, value, resolving);
  };
  const queueReaction = (reaction, value, isThen) => {
    host.queue(() => {
      let result = value;
      let threw = !isThen;
      if (reaction.callback) {
        threw = false;
        try {
          result = reaction.callback(value);
        } catch (error) {
          result = caught(error);
          threw = true;
        }
      }
      settle(reaction.next, result, !threw);
    });
  };
  const settle = (box, value, resolving) => {
    if (box.isResolved) return;
    box.isResolved = true;
    const promise = box.promise;
    if (value === promise) throw makeError("Error", "Illegal resolving to self");
    states.get(promise).value = value;
    if (!resolving || typeof value !== "object" || value === null || brokenValues.has(value))
      return seal(promise, value, resolving);
    const isPromise = states.has(value);
    const then = isPromise ? Promise.prototype.then : value.then;
    if (typeof then !== "function") return seal(promise, value, resolving);
    const inner = { promise, isResolved: false };
    try {
      reflectApply(then, value, [(result) => settle(inner, result, true), (error) => settle(inner, error, false)]);
    } catch (error) {
      settle(inner, caught(error), false);
    }
  };
  const queueSettle = (box, value, resolving) => host.queue(() => settle(box, value, resolving));
  const newPromise = () => {
    const promise = Object.create(EspruinoPromise.prototype);
    promise.state = PENDING;
    states.set(promise, { then: [], catch: [], value: undefined });
    return promise;
  };
  const EspruinoPromise = function (executor) {
    if (executor === undefined) throw makeError("Error", "Function required in promise constructor");
    const promise = newPromise();
    const box = { promise, isResolved: false };
    let isHeld = false;
    const queueHeld = (value, resolving) => {
      isHeld = true;
      queueSettle(box, value, resolving);
    };
    try {
      executor(
        (value) => queueHeld(value, true),
        (value) => queueHeld(value, false),
      );
    } catch (error) {
      queueHeld(caught(error), false);
    }
    if (isHeld || !functionInfos.has(executor) || host.mayKeepArguments(functionInfos.get(executor))) return promise;
    // Only the two functions hold the promise while the constructor runs: the interpreter has freed it by now and
    // returns it all the same.
    const broken = Object.create(null);
    brokenValues.add(broken);
    return broken;
  };
  const chain = (promise, onThen, onCatch) => {
    const state = states.get(promise);
    const next = newPromise();
    const box = { promise: next, isResolved: false };
    const thenReaction = { callback: onThen, next: box };
    const catchReaction = { callback: onCatch, next: box };
    if (promise.state === FULFILLED) queueReaction(thenReaction, state.value, true);
    else if (promise.state === REJECTED) queueReaction(catchReaction, state.value, false);
    else {
      state.then.push(thenReaction);
      state.catch.push(catchReaction);
    }
    return next;
  };
  method(EspruinoPromise.prototype, "then", function (onThen, onCatch) {
    return chain(this, onThen, onCatch);
  });
  method(EspruinoPromise.prototype, "catch", function (onCatch) {
    return chain(this, undefined, onCatch);
  });
  const resolved = (value) => {
    if (typeof value === "object" && value !== null) {
      if (states.has(value)) return value;
      if (typeof value.then === "function")
        return new EspruinoPromise(function (resolve, reject) {
          value.then(resolve, reject);
        });
    }
    const promise = newPromise();
    queueSettle({ promise, isResolved: false }, value, true);
    return promise;
  };
  method(EspruinoPromise, "resolve", resolved);
  method(EspruinoPromise, "reject", function (value) {
    const promise = newPromise();
    queueSettle({ promise, isResolved: false }, value, false);
    return promise;
  });
  method(EspruinoPromise, "all", function (list) {
    if (list === null || typeof list !== "object")
      throw makeError("TypeError", `Expecting something iterable, got ${typeName(list)}`);
    const results = [];
    let remaining = 0;
    const promise = newPromise();
    const box = { promise, isResolved: false };
    list.forEach((item, index) => {
      if (typeof item === "object" && item !== null && states.has(item)) {
        remaining++;
        chain(
          item,
          (value) => {
            results[index] = value;
            if (--remaining === 0) queueSettle(box, results, true);
          },
          (error) => queueSettle(box, error, false),
        );
      } else results[index] = item;
    });
    return remaining ? promise : resolved(results);
  });
  method(G, "Promise", EspruinoPromise);

  // ---- Math
  keep(
    Math,
    (
      "E LN10 LN2 LOG10E LOG2E PI SQRT1_2 SQRT2 abs acos asin atan atan2 ceil cos exp floor log max min pow random " +
      "round sign sin sqrt tan"
    ).split(" "),
  );
  method(Math, "round", (value) => (value < 0 ? 0 - floor(0.5 - value) : floor(toNumber(value) + 0.5)));
  for (const name of ["ceil", "floor"]) {
    const native = Math[name];
    method(Math, name, (value) => native(value) + 0);
  }
  method(Math, "clip", (value, min, max) => (value < min ? min : value > max ? max : value));
  method(Math, "wrap", (value, max) => (value < 0 ? value - Math.floor(value / max) * max : value % max));
  method(Math, "randInt", (range) => Math.floor(Math.random() * (range > 0 ? range : 2 ** 31)));

  // ---- What the board does not have at all.
  for (const name of (
    "Map Set WeakMap WeakSet WeakRef FinalizationRegistry Symbol Proxy Reflect BigInt Intl Atomics " +
    "SharedArrayBuffer WebAssembly EvalError RangeError URIError AggregateError SuppressedError DisposableStack " +
    "AsyncDisposableStack Float16Array Temporal encodeURI decodeURI escape " +
    "unescape Iterator queueMicrotask structuredClone console"
  ).split(" "))
    delete G[name];
  method(G, "encodeURIComponent", function (value) {
    const text = str(value);
    let out = "";
    for (let i = 0; i < text.length; i++) {
      const char = text[i];
      const code = text.charCodeAt(i);
      if (isAlpha(char) || isDigit(char) || "-.!~*'()".includes(char)) out += char;
      else {
        // Bytes from 0x80 on are sign-extended on the board: their first digit is wrong there too.
        const high = code >= 0x80 ? (code | 0xffffff00) >>> 4 : code >> 4;
        out += "%" + (high > 9 ? fromCharCode((65 + high - 10) & 0xff) : high) + hex(code & 15, 1);
      }
    }
    return out;
  });
  method(G, "decodeURIComponent", function (value) {
    const text = str(value);
    let out = "";
    for (let i = 0; i < text.length; i++) {
      if (text.charCodeAt(i) >= 0x80) throw makeError("Error", "ASCII only");
      if (text[i] !== "%") out += text[i];
      else {
        const code = nativeParseIntHex(text.slice(i + 1, i + 3));
        if (!(code < 0x80)) throw makeError("Error", "Invalid URI");
        out += fromCharCode(code);
        i += 2;
      }
    }
    return out;
  });
  const BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  method(G, "btoa", function (value) {
    const text = typeof value === "string" ? value : isArray(value) || isView(value) ? fromBytes(value) : undefined;
    if (text === undefined) throw makeError("Error", `Expecting String or Array, got ${typeName(value)}`);
    let out = "";
    for (let i = 0; i < text.length; i += 3) {
      const bits = (text.charCodeAt(i) << 16) | ((text.charCodeAt(i + 1) || 0) << 8) | (text.charCodeAt(i + 2) || 0);
      out += BASE64[bits >> 18] + BASE64[(bits >> 12) & 63];
      out += i + 1 < text.length ? BASE64[(bits >> 6) & 63] : "=";
      out += i + 2 < text.length ? BASE64[bits & 63] : "=";
    }
    return out;
  });
  method(G, "atob", function (value) {
    if (typeof value !== "string") throw makeError("Error", `Expecting String, got ${typeName(value)}`);
    let out = "";
    let bits = 0;
    let count = 0;
    for (const char of value) {
      const digit = BASE64.indexOf(char);
      if (digit < 0) continue;
      bits = (bits << 6) | digit;
      count += 6;
      if (count >= 8) {
        count -= 8;
        out += fromCharCode((bits >> count) & 0xff);
      }
    }
    return out;
  });
  const fromBytes = (values) => {
    let out = "";
    for (let i = 0; i < values.length; i++) out += fromCharCode(values[i] & 0xff);
    return out;
  };

  // ---- Helpers for rewritten source
  /** What a loop can go over; over nothing it takes no turn. */
  const keyed = (value) => {
    if (value === null || isNumeric(value)) {
      const name = value === null ? "null" : host.isPin(value) ? "Pin" : "Number";
      throw makeError("Error", `FOR loop can only iterate over Arrays, Strings or Objects, not ${name}`);
    }
    return value;
  };
  const nullObject = { toString: () => "null", valueOf: () => null, hasOwnProperty: () => false };
  const helpers = {
    in: enterStack,
    out: leaveStack,
    step,
    t: host.tables,
    f(info, scope, fn) {
      functionInfos.set(fn, info);
      functionScopes.set(fn, scope);
      return fn;
    },
    s: (parent, count, read) => ({ parent, count, read }),
    c: (scope, parent, members) => makeClass(scope, parent, members),
    superCall,
    superOf,
    add,
    // Two numbers are what nearly all operands are: that case must stay small enough to be inlined.
    lt: (a, b) => (typeof a === "number" && typeof b === "number" ? a < b : operate("<", a, b)),
    gt: (a, b) => (typeof a === "number" && typeof b === "number" ? a > b : operate(">", a, b)),
    le: (a, b) => (typeof a === "number" && typeof b === "number" ? a <= b : operate("<=", a, b)),
    ge: (a, b) => (typeof a === "number" && typeof b === "number" ? a >= b : operate(">=", a, b)),
    eq: (a, b) => (typeof a === typeof b && typeof a !== "object" ? a === b : operate("==", a, b)),
    ne: (a, b) => (typeof a === typeof b && typeof a !== "object" ? a !== b : operate("!=", a, b)),
    same: (a, b) => a === b || ((typeof a === "object" || typeof b === "object") && operate("===", a, b)),
    differs: (a, b) => a !== b && ((typeof a !== "object" && typeof b !== "object") || operate("!==", a, b)),
    sub: (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : operate("-", a, b)),
    mul: (a, b) => (typeof a === "number" && typeof b === "number" ? a * b : operate("*", a, b)),
    div: (a, b) => (typeof a === "number" && typeof b === "number" ? a / b : operate("/", a, b)),
    mod: (a, b) => (typeof a === "number" && typeof b === "number" ? a % b : operate("%", a, b)),
    and: (a, b) => (typeof a === "number" && typeof b === "number" ? a & b : operate("&", a, b)),
    or: (a, b) => (typeof a === "number" && typeof b === "number" ? a | b : operate("|", a, b)),
    xor: (a, b) => (typeof a === "number" && typeof b === "number" ? a ^ b : operate("^", a, b)),
    shl: (a, b) => (typeof a === "number" && typeof b === "number" ? a << b : operate("<<", a, b)),
    shr: (a, b) => (typeof a === "number" && typeof b === "number" ? a >> b : operate(">>", a, b)),
    ushr: (a, b) => (typeof a === "number" && typeof b === "number" ? a >>> b : operate(">>>", a, b)),
    inv: (value) => ~toInteger(valueOf(value)),
    num(value) {
      const number = valueOf(value);
      return host.isPin(number) ? number : toNumber(number);
    },
    assign: (operation, object, key, value) => (object[key] = operation(object[key], value)),
    /** What `x++` gives: the number x was. `++x` adds to what x is, which of a text makes a longer one. */
    old: toNumber,
    postfix(operation, object, key) {
      const old = toNumber(object[key]);
      object[key] = operation(old, 1);
      return old;
    },
    id: (value) => value,
    u: 0,
    /** null has the methods of every object. */
    boxed: (value) => (value === null ? nullObject : value),
    str,
    caught,
    regexp: (source, flags) => {
      const regexp = Object.create(EspruinoRegExp.prototype);
      regexp.source = source;
      if (flags) regexp.flags = flags;
      regexp.lastIndex = 0;
      return regexp;
    },
    args: (list) => [].slice.call(list),
    noArgs() {
      throw makeError("Error", "Can only use 'arguments' variable inside a function");
    },
    touch(object, name) {
      if (object === null || object === undefined)
        throw makeError("Error", `Can't read property '${name}' of ${object}`);
    },
    typeOf: (value) => (host.isPin(value) ? "number" : brokenValues.has(value) ? "?" : typeof value),
    error: (type, message) => makeError(type, message),
    nameOf: (object) =>
      typeof object === "function" && functionInfos.has(object)
        ? own(object, "name")
        : typeof object === "function"
          ? undefined
          : object.name,
    setLength(object, length) {
      if (isArray(object) || typeof object === "string") throw makeError("TypeError", "Assignment to a constant");
      return (object.length = length);
    },
    keyed,
    iterable(value) {
      if (keyed(value) === undefined) return [];
      return typeof value === "string" || isArray(value) || isView(value) ? value : Object.values(value);
    },
    declare(name) {
      helpers.name(name);
      return G[name];
    },
    name(name) {
      if (!hasOwn(G, name)) G[name] = undefined;
    },
    constant(name, value) {
      define(G, name, {
        get: () => value,
        set() {
          throw makeError("TypeError", "Assignment to a constant");
        },
        configurable: true,
        enumerable: true,
      });
      return value;
    },
    source(code, scope, isLocal) {
      if (typeof code !== "string") return code;
      try {
        return host.evalSource(code, scope, isLocal);
      } catch (error) {
        throw caught(error);
      }
    },
  };
  // A function's `name` is an own property of V8's making unless the program set one.
  const own = (fn, name) => {
    const descriptor = nativeDescriptor(fn, name);
    return descriptor && descriptor.writable ? descriptor.value : undefined;
  };

  return {
    helpers,
    str,
    format,
    caught,
    makeError,
    isRealmError,
    emit,
    listeners,
    functionInfo: (fn) => functionInfos.get(fn),
    functionScope: (fn) => functionScopes.get(fn),
    promiseState: (value) => states.get(value),
    listenerTable: (value) => listenersOf.get(value),
    typeName,
    bytesOf,
    method,
    nativeDescriptor,
    ownNames,
    newObject: () => ({}),
    newArray: (items) => {
      const array = [];
      for (let i = 0; i < items.length; i++) array[i] = items[i];
      return array;
    },
    define,
    /** A realm function around a host function: its errors become realm errors. */
    wrap: (fn) =>
      function () {
        try {
          return fn.apply(this, arguments);
        } catch (error) {
          throw caught(error);
        }
      },
    resetStack() {
      stackUsed = 0;
      stepsLeft = host.maxSteps;
    },
    useStack: enterStack,
    stackPeak: () => stackPeak,
    NativeDate,
    arrayBuffer: (text) => bytesOf(text).buffer,
    uint8Array: (text) => bytesOf(text),
    isBuffer: (value) => isView(value) || value instanceof ArrayBuffer,
  };
});
