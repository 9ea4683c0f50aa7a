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
  const { WeakMap: NativeWeakMap, WeakSet: NativeWeakSet } = G;
  const nativeKeys = Object.keys;
  const nativeDescriptor = Object.getOwnPropertyDescriptor;
  const define = Object.defineProperty;
  const nativeGetPrototypeOf = Object.getPrototypeOf;
  const nativeIsInteger = Number.isInteger;
  const trunc = Math.trunc;
  const setPrototype = Object.setPrototypeOf;
  const nativeCreate = Object.create;
  const NativeArrayBuffer = ArrayBuffer;
  const ArrayBufferPrototype = {};
  /** The longest buffer of the interpreter, in bytes. */
  const MAX_BUFFER = 0xffffff;
  const floor = Math.floor;
  const reflectApply = Reflect.apply;
  const construct = Reflect.construct;
  const isPrototypeOf = Object.prototype.isPrototypeOf;
  const isArray = Array.isArray;
  const isView = ArrayBuffer.isView;
  const nativeParseInt = parseInt;
  const fromCharCode = String.fromCharCode;
  const NativeBigInt = BigInt;
  const NativeNumber = Number;
  const NativeString = String;
  const NativeBoolean = Boolean;
  const nativeNumberToString = Number.prototype.toString;
  const ownNames = Object.getOwnPropertyNames;
  const none = Symbol("none");
  const { iterator } = Symbol;
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

  // ---- Loops: where nobody can press Ctrl-C while one runs, one without end is ended.
  let stepsLeft = host.maxSteps;
  const step = () => {
    if (--stepsLeft >= 0) return;
    stepsLeft = host.maxSteps;
    if (!host.mayRunOn()) throw host.interrupt("steps");
  };

  // ---- Errors: five unrelated classes whose fields are own properties; no `name`.
  const errorClasses = {};
  const makeErrorClass = (type) => {
    const ErrorClass = function (message) {
      const self = this instanceof ErrorClass ? this : nativeCreate(ErrorClass.prototype);
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

  /** `at`: the place to report, where that is not the one of the call that led here. */
  const makeError = (type, message, nativeStack, at) => {
    const ErrorClass = errorClasses[type] || errorClasses.Error;
    useClass(ErrorClass);
    const error = nativeCreate(ErrorClass.prototype);
    error.message = message;
    error.type = type;
    error.stack = host.stack(nativeStack || new NativeError().stack, at);
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
    )
      return makeError("Error", `Can't read property '${match[2]}' of ${match[1]}`, stack);
    if ((match = /^([\s\S]*) is not a function(?: or its return value is not iterable)?$/.exec(message)))
      return makeError("Error", noFunction(match[1], stack), stack);
    if (/^Assignment to constant variable/.test(message) || /read only property/.test(message))
      return makeError("TypeError", "Assignment to a constant", stack);
    if (/Cannot convert object to primitive|Converting circular/.test(message))
      return makeError("InternalError", "Variable type cannot be converted to string", stack);
    return makeError(value instanceof NativeTypeError ? "TypeError" : "Error", message, stack);
  };

  /**
   * What is said of a call of something that is no function. V8 tells only how that is written; what it is can be seen
   * where it is a constant or hangs on a global name, and no function has names of its own.
   */
  const noFunction = (written, stack) => {
    const literal = /^(?:(-?\d[\d.]*)|("[^]*")|(true|false)|(null))$/.exec(written);
    if (literal)
      return `Expecting function, got ${literal[1] ? "Number" : literal[2] ? "String" : literal[3] ? "Number" : "null"}`;
    const name = /([\w$]+)$/.exec(written);
    if (host.isAtProgramLevel(stack) && /^[A-Za-z_$][\w$]*(\.[A-Za-z_$][\w$]*)*$/.test(written)) {
      let value = G;
      for (const part of written.split(".")) {
        if (value === null || value === undefined) break;
        const holder = typeof value === "object" || typeof value === "function" ? value : undefined;
        const found = holder && nativeDescriptor(holder, part);
        value = found && found.get ? undefined : value[part];
      }
      if (value !== undefined) return `Expecting function, got ${typeName(value)}`;
    }
    return name && name[1] !== "undefined" ? `Function "${name[1]}" not found!` : "Function not found!";
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

  /** What has no name of its own in the interpreter: it takes built-in objects for functions. */
  const builtInObjects = new NativeWeakSet();
  /** Lists of numbers that are no object to the interpreter; a DataView is one. */
  const isBuffer = (value) => isView(value) && !(value instanceof DataView);
  const isArrayBuffer = (value) => isView(value) && nativeGetPrototypeOf(value) === ArrayBufferPrototype;
  const isObject = (value) =>
    typeof value === "object" && value !== null && !isArray(value) && !isBuffer(value) && !host.isPin(value);
  /** V8 makes an object of a primitive that a function is called on; the interpreter does not. */
  const unboxed = (value) =>
    typeof value === "object" &&
    value !== null &&
    (value instanceof NativeNumber || value instanceof NativeString || value instanceof NativeBoolean)
      ? value.valueOf()
      : value;
  /** A value as text, as `String` makes it. */
  const str = (value) => {
    if (typeof value === "string") return value;
    if (typeof value === "number") return numberToString(value);
    if (value === null || value === undefined || typeof value === "boolean") return `${value}`;
    if (typeof value === "function") return functionToString(value);
    if (isArray(value)) return joinArray(value);
    if (isBuffer(value)) return joinArray(value);
    if (brokenValues.has(value)) throw makeError("InternalError", "Variable type cannot be converted to string");
    if (host.isPin(value)) return value.toString();
    if (builtInObjects.has(value)) return "function () { [native code] }";
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
  /** `jsvGetFloat` */
  const toNumber = (value) => {
    if (typeof value === "number") return value;
    if (typeof value === "string") return textToNumber(value);
    if (value === null || typeof value === "boolean") return NativeNumber(value);
    if (typeof value !== "object") return NaN;
    if (host.isPin(value)) return value.valueOf();
    const plain = unboxed(value);
    if (plain !== value) return toNumber(plain);
    if (!isArray(value) && !isBuffer(value)) return NaN;
    return value.length === 0 ? 0 : value.length === 1 ? toNumber(value[0]) : NaN;
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
    return number;
  };
  EspruinoNumber.prototype = NativeNumber.prototype;
  method(NativeNumber.prototype, "constructor", EspruinoNumber);
  const numberConstants = {
    NaN,
    MAX_VALUE: NativeNumber.MAX_VALUE,
    // The smallest that has all its digits.
    MIN_VALUE: 2 ** -1022,
    NEGATIVE_INFINITY: -Infinity,
    POSITIVE_INFINITY: Infinity,
  };
  for (const name of nativeKeys(numberConstants)) define(EspruinoNumber, name, { value: numberConstants[name] });
  method(G, "Number", EspruinoNumber);

  /** Whole numbers have 64 bits, whose overflow wraps. */
  const wholeNumber = (digits, radix) => {
    let value = NativeBigInt(0);
    for (const char of digits) value = value * NativeBigInt(radix) + NativeBigInt(nativeParseInt(char, radix));
    return NativeNumber(NativeBigInt.asIntN(64, value));
  };
  method(G, "isNaN", function (value) {
    if (value === undefined || (isObject(value) && !builtInObjects.has(value))) return true;
    if (typeof value === "string") {
      if (value.trim() === "") return false;
    } else if (typeof value !== "number" && !isArray(value)) return false;
    const number = toNumber(value);
    return number !== number;
  });
  method(G, "parseInt", function (value, radix) {
    if (typeof value === "number" && value !== value) return NaN;
    const text = str(value);
    const base = isNumeric(radix) ? toInteger(radix) : 0;
    const match = /^\s*([+-]?)(0[xX]|0[oO]|0[bB])?/.exec(text);
    const prefix = (match[2] || "").toLowerCase();
    let used = base;
    let rest = text.slice(match[0].length);
    if (!base) used = prefix === "0x" ? 16 : prefix === "0o" ? 8 : prefix === "0b" ? 0 : 10;
    else if (base === 16 && prefix === "0x") used = 16;
    else rest = text.slice(match[0].length - prefix.length);
    if (!used) return 0;
    let result = NaN;
    let digits = "";
    for (const char of rest) {
      const digit = "0123456789abcdefghijklmnopqrstuvwxyz".indexOf(char.toLowerCase());
      if (digit < 0 || digit >= used) break;
      result = (result === result ? result : 0) * used + digit;
      digits += char;
    }
    if (result >= 2 ** 53) result = wholeNumber(digits, used);
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

  const replacements = new NativeWeakMap();
  const functionText = (fn, limit, known) => {
    const info = known || functionInfos.get(fn);
    if (!info) return "() { [native code] }";
    const params = `(${info.params.join(",")}) `;
    const code = info.body;
    if (code === "") return `${params}{}`;
    if (limit) return `${params}{ ... }`;
    const hasNewLine = code.includes("\n");
    const body = (info.isExpression ? "return " : "") + code;
    return `${params}${hasNewLine ? "{\n  " : "{"}${body}${hasNewLine ? "\n}" : "}"}`;
  };
  const functionToString = (fn) =>
    fn.toString === Function.prototype.toString ? `function ${functionText(fn)}` : str(fn.toString());
  // Programs write the code of a function to a file, and read it from there.
  define(Function.prototype, "\xffcod", {
    get() {
      const info = functionInfos.get(this);
      return info && info.body;
    },
  });
  method(Function.prototype, "toString", function () {
    return `function ${functionText(this)}`;
  });
  const NativeFunction = Function;
  const EspruinoFunction = function () {
    const values = [].slice.call(arguments);
    const body = values.pop();
    if (typeof body !== "string")
      throw makeError("TypeError", `Function code must be a String, got '${typeName(body)}'`);
    // Each text names one parameter, whatever it is.
    const names = values.map(str);
    const params = names.map((name, index) => (/^[A-Za-z_$][\w$]*$/.test(name) ? name : `_$${index}`));
    const fn = host.makeFunction(params.join(","), body);
    const bodyStart = `(function(${params.join(",")}){`.length;
    Object.assign(functionInfos.get(fn), { params: names, body, isExpression: false, bodyStart });
    return fn;
  };
  EspruinoFunction.prototype = NativeFunction.prototype;
  method(NativeFunction.prototype, "constructor", EspruinoFunction);
  method(G, "Function", EspruinoFunction);
  const nativeApply = NativeFunction.prototype.apply;
  const MAX_APPLY_ARGUMENTS = 256;
  method(NativeFunction.prototype, "apply", function (thisValue, list) {
    if (list !== undefined && !isIterable(list))
      throw makeError("Error", `Second argument to Function.apply must be iterable, got ${typeName(list)}`);
    if (list !== undefined && list.length > MAX_APPLY_ARGUMENTS)
      throw makeError(
        "Error",
        `Array passed to Function.apply is too big! Maximum ${MAX_APPLY_ARGUMENTS} arguments, got ${list.length}`,
      );
    const before = enterStack(CALL_STACK);
    const values = typeof list === "string" ? [...list] : list;
    return leaveStack(before, reflectApply(nativeApply, this, [thisValue, values]));
  });
  const nativeCall = NativeFunction.prototype.call;
  method(NativeFunction.prototype, "call", function () {
    const before = enterStack(CALL_STACK);
    return leaveStack(before, reflectApply(nativeCall, this, arguments));
  });

  const bounds = new NativeWeakMap();
  const nativeBind = NativeFunction.prototype.bind;
  // The interpreter copies the function: it shows its code, and can be bound once more.
  method(NativeFunction.prototype, "bind", function (self) {
    const info = functionInfos.get(this);
    if (!info) return reflectApply(nativeBind, this, arguments);
    const known = bounds.get(this);
    const target = known ? known.target : this;
    const given = [].slice.call(arguments, 1);
    if (known) given.unshift(...known.given);
    const bound = reflectApply(nativeBind, target, [self, ...given]);
    define(bound, "length", { value: target.length, configurable: true });
    define(bound, "prototype", { value: {}, writable: true });
    bounds.set(bound, { target, self, given });
    functionInfos.set(bound, info);
    functionScopes.set(bound, functionScopes.get(target));
    return bound;
  });

  // ---- Classes: fields stand on the prototype, `super` starts from `this`.
  const superError = (at) => makeError("SyntaxError", "Calling 'super' outside of class", undefined, at);
  const isBuiltInPrototype = (object) => {
    if (typeof object !== "object" || object === null || object === NativeObject.prototype) return false;
    const own = nativeDescriptor(object, "constructor");
    if (!own || own.enumerable || typeof own.value !== "function" || functionInfos.has(own.value)) return false;
    return own.value.prototype === object;
  };
  const standIns = new NativeWeakMap();
  /** Built-in classes the program has an object of: from then on their prototypes point back to them. */
  const usedClasses = new NativeWeakSet();
  const useClass = (Class) => {
    usedClasses.add(Class);
    const standIn = standIns.get(Class.prototype);
    if (standIn) method(standIn, "constructor", Class);
  };
  /**
   * What inherits from a prototype: of a built-in class that is an object without its methods, which the interpreter
   * finds by the kind of a value and not by its prototype.
   */
  const parentPrototype = (prototype) => {
    if (!isBuiltInPrototype(prototype)) return prototype;
    if (!standIns.has(prototype)) {
      standIns.set(prototype, {});
      if (usedClasses.has(prototype.constructor)) useClass(prototype.constructor);
    }
    return standIns.get(prototype);
  };

  /** As long as the program has not used a built-in class there is no prototype to inherit from. */
  const classPrototype = (prototype) => {
    const isMissing =
      isBuiltInPrototype(prototype) && !standIns.has(prototype) && !usedClasses.has(prototype.constructor);
    return isMissing ? NativeObject.prototype : parentPrototype(prototype);
  };

  const classes = new NativeWeakSet();
  const makeClass = (scope, parent, parentName, members) => {
    const holder = {};
    const list = members(holder);
    const entry = list.find((item) => item[0] === "constructor");
    if (parent !== undefined && typeof parent !== "function")
      throw makeError("SyntaxError", `'extends' argument "${parentName}" should be a function, got ${typeName(parent)}`);
    const Class = entry
      ? entry[2]
      : function () {
          if (parent !== undefined && functionInfos.has(parent)) reflectApply(parent, this, arguments);
        };
    const body = parent === undefined ? "" : `${parentName}.apply(this,arguments)`;
    if (!entry) functionInfos.set(Class, { name: "", params: [], body, isExpression: false, start: 0, end: 0 });
    holder.constructor = Class;
    classes.add(Class);
    const prototype = nativeCreate(parent === undefined ? NativeObject.prototype : classPrototype(parent.prototype));
    method(prototype, "constructor", Class);
    Class.prototype = prototype;
    for (const [kind, name, value] of list) {
      const target = kind.startsWith("static ") ? Class : prototype;
      const plain = kind.replace("static ", "");
      if (plain === "constructor") continue;
      if (plain === "get" || plain === "set") {
        const old = nativeDescriptor(target, name);
        define(target, name, {
          get: old && old.get,
          set: old && old.set,
          [plain]: value,
          configurable: true,
          enumerable: true,
        });
      } else target[name] = value;
    }
    return Class;
  };
  const directSuper = (holder, self, at, ...list) => {
    if (!holder || self === G) throw superError(at);
    const parent = nativeGetPrototypeOf(holder.constructor.prototype);
    if (!parent || parent === NativeObject.prototype) throw superError(at);
    if (!hasOwn(parent, "constructor")) throw makeError("Error", "Function not found!", undefined, at);
    return reflectApply(parent.constructor, self, list);
  };
  const superOf = (self) => {
    const own =
      typeof self === "function"
        ? self.prototype
        : self === undefined || self === null || self === G
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
    if (typeof value === "boolean") return "Number";
    if (host.isPin(value)) return "Pin";
    if (builtInObjects.has(value)) return "Function";
    return isBuffer(value) ? className(value) : "Object";
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
  ].map((name) => [name, G[name]]);
  const className = (value) => {
    if (isArrayBuffer(value)) return "ArrayBuffer";
    return bufferClasses.find((pair) => value instanceof pair[1])[0];
  };

  const dataViewFields = (view) => ({ buffer: view.buffer, byteOffset: view.byteOffset, byteLength: view.byteLength });
  const needsNewLine = (value) =>
    !(
      value === undefined ||
      value === null ||
      typeof value === "number" ||
      typeof value === "boolean" ||
      host.isPin(value)
    );
  const isIdentifier = (text) => /^[A-Za-z_]\w*$/.test(text);

  /** Flags: `json some all pretty limit names dropQuotes shortEscapes`, see `FormatFlags` in realm.ts. */
  const format = (value, flags, whitespace = "  ") => {
    const isJson = flags.json && !flags.shortEscapes;
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
        if (flags.json && (typeof item === "function" || item === undefined || builtInObjects.has(item))) continue;
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
        out += (bare ? key : quote(key, isJson)) + (flags.pretty ? ": " : ":");
        first = false;
        out += write(item, indent + 1, key);
        needNewLine = newNeeds;
      }
      return { out, needNewLine };
    };
    const write = (given, indent, key, noToJson) => {
      const item = unboxed(given);
      if (item === undefined) return flags.json ? "null" : "undefined";
      if (item === null || typeof item === "boolean") return `${item}`;
      if (typeof item === "number") return flags.json && !(item - item === 0) ? "null" : numberToString(item);
      if (typeof item === "string" || (flags.json && host.isPin(item))) {
        const text = str(item);
        if (flags.limit && text.length > LIMIT_STRING)
          return quote(text.slice(0, LIMITED_STRING)) + LIMIT_TEXT + quote(text.slice(-LIMITED_STRING));
        return quote(text, isJson);
      }
      if (host.isPin(item)) return str(item);
      if (typeof item === "function" || builtInObjects.has(item))
        return flags.json ? "undefined" : `function ${functionText(item, flags.limit)}`;
      if (busy.includes(item)) return LIMIT_TEXT;
      if (brokenValues.has(item)) {
        host.raise(makeError("InternalError", "Variable type cannot be converted to string"));
        return "";
      }
      busy.push(item);
      try {
        if (isArray(item)) return writeArray(item, indent);
        if (isBuffer(item)) return writeBuffer(item, indent);
        const device = !flags.json && host.deviceName(item);
        if (device) return device;
        if (flags.names) {
          const prototype = nativeGetPrototypeOf(item);
          const own = prototype && prototype !== Object.prototype && nativeDescriptor(prototype, "constructor");
          if (item instanceof DataView) return `DataView: ${writeObject(dataViewFields(item), indent)}`;
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
        item === G
          ? host.globalNames()
          : ownNames(item).filter((name) => name !== "constructor" && nativeDescriptor(item, name).enumerable);
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
      const values = item;
      const isArrayBuffer = name === "ArrayBuffer";
      let isZero = true;
      for (let i = 0; i < values.length && isZero; i++) isZero = values[i] === 0;
      if (!flags.json && isZero) return `new ${name}(${values.length})`;
      if (isArrayBuffer) name = "Uint8Array";
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
      return out + (flags.json ? "]" : "])") + (isArrayBuffer && !flags.json ? ".buffer" : "");
    };
    return write(value, 0);
  };
  // ---- JSON
  const JSON_TOKEN = /[ \t\r\n\v\f]*(?:\/\/[^\n]*[ \t\r\n]*|\/\*[\s\S]*?\*\/[ \t\r\n]*)*/y;
  /** `isLenient`: names and numbers may be keys, as in files. */
  const parseJson = (source, isLenient) => {
    const text = str(source);
    let position = 0;
    let token;
    const tokenText = () => {
      if (token.kind === "EOF") return "EOF";
      if (token.kind === "WORD") return token.value;
      if (token.kind === "UNFINISHED") return "UNFINISHED STRING";
      return token.kind.length > 1 ? token.kind : `'${token.kind}'`;
    };
    let tokenStart = 0;
    let lastStart = 0;
    const next = () => {
      lastStart = tokenStart;
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
            if (digits.length < length) throw failure("Error", "Invalid escape sequence", lastStart);
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
      const double = text.slice(position, position + 2);
      token = { kind: double === "--" || double === "++" ? double : char };
      position += token.kind.length;
    };
    const failure = (type, message, at) => {
      const error = makeError(type, message);
      error.stack = host.frame(text, at);
      return error;
    };
    const match = (kind) => {
      if (token.kind !== kind) throw failure("SyntaxError", `Got ${tokenText()} expected '${kind}'`, tokenStart);
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
          if (token.kind !== "STRING" && !isLenient) {
            const got = token.kind === "ID" ? `ID:${token.value}`.slice(0, 29) : tokenText();
            throw failure("SyntaxError", `Got ${got} expected STRING`, tokenStart);
          }
          const name = str(token.value);
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
      throw failure("SyntaxError", `Expecting valid value, got ${tokenText()}`, lastStart);
    };
    next();
    const result = parse();
    return result === nothing ? undefined : result;
  };
  const nativeParseIntHex = (digits) => nativeParseInt(digits, 16);
  const nativeHasOwn = Object.prototype.hasOwnProperty;
  const hasOwn = (object, name) => nativeHasOwn.call(object, name);
  method(JSON, "parse", (text) => parseJson(text, false));
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
    const self = this instanceof EspruinoRegExp ? this : nativeCreate(EspruinoRegExp.prototype);
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
  const EspruinoString = function (value) {
    const text = arguments.length === 0 ? "" : str(value);
    return text;
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
    for (let i = 0; i < arguments.length; i++) if (arguments[i] !== undefined) out += str(arguments[i]);
    return out;
  });
  const nativeEndsWith = S.endsWith;
  method(S, "endsWith", function (wanted, length) {
    return reflectApply(nativeEndsWith, str(this), [str(wanted), isNumeric(length) ? toInteger(length) : undefined]);
  });
  const nativeLastIndexOf = S.lastIndexOf;
  method(S, "lastIndexOf", function (wanted, from) {
    const list = from === undefined ? [str(wanted)] : [str(wanted), toInteger(from)];
    return reflectApply(nativeLastIndexOf, str(this), list);
  });
  /** Letters of the upper half of ISO 8859-1 without their accents. */
  const PLAIN_LETTERS =
    "A A A A A A AE C E E E E I I I I D N O O O O O \xd7 O U U U U Y P SS " +
    "a a a a a a ae c e e e e i i i i d n o o o o o \xf7 o u u u u y p y";
  const plainLetters = PLAIN_LETTERS.split(" ");
  method(S, "removeAccents", function () {
    let out = "";
    for (const char of str(this)) out += char < "\xc0" ? char : plainLetters[char.charCodeAt(0) - 0xc0];
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
  // Reading before the first character is an error. V8 looks there for a property: those nearest to it are errors too.
  for (let index = -1; index >= -8; index--)
    define(S, index, {
      get: () => {
        throw cannotCreate(`${index}`, "");
      },
    });

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
    if (arguments.length === 1 && typeof first === "boolean") return new NativeArray(first ? 1 : 0);
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
  const isIterable = (value) => typeof value === "string" || (typeof value === "object" && value !== null && !host.isPin(value)) || typeof value === "function";
  /** Calls `visit(item, index)` for the items there are until it returns true; what is added meanwhile counts. */
  const eachItem = (list, visit) => {
    if (isArray(list) || typeof list === "string" || isBuffer(list)) {
      for (let index = 0; index < list.length; index++)
        if ((!isArray(list) || index in list) && visit(list[index], index)) return;
      return;
    }
    for (const key of nativeKeys(list)) if (/^(0|[1-9]\d*)$/.test(key) && visit(list[key], +key)) return;
  };
  const withCallback = (name, takesThis, body) => {
    const run = function (callback, self) {
      if (!isIterable(this)) throw makeError("Error", "Must be called on something iterable");
      if (typeof callback !== "function") throw makeError("Error", "First argument must be a function");
      if (takesThis && self !== undefined && !isObject(self) && !host.isPin(self))
        throw makeError("Error", "Second argument must be Object or undefined");
      const before = enterStack(CALLBACK_STACK);
      return leaveStack(before, body(this, callback, takesThis ? self : undefined, arguments.length > 1));
    };
    method(A, name, run);
    return run;
  };
  const iteration = {
    map: withCallback("map", true, (list, callback, self) => {
      const result = [];
      eachItem(list, (item, index) => void (result[index] = reflectApply(callback, self, [item, index, list])));
      return result;
    }),
    forEach: withCallback("forEach", true, (list, callback, self) => {
      eachItem(list, (item, index) => void reflectApply(callback, self, [item, index, list]));
    }),
    filter: withCallback("filter", true, (list, callback, self) => {
      const result = [];
      eachItem(list, (item, index) => void (reflectApply(callback, self, [item, index, list]) && result.push(item)));
      return result;
    }),
    some: withCallback("some", true, (list, callback, self) => {
      let found = false;
      eachItem(list, (item, index) => (found = !!reflectApply(callback, self, [item, index, list])));
      return found;
    }),
    every: withCallback("every", true, (list, callback, self) => {
      let failed = false;
      eachItem(list, (item, index) => (failed = !reflectApply(callback, self, [item, index, list])));
      return !failed;
    }),
    find: withCallback("find", false, (list, callback) => {
      let result;
      eachItem(list, (item, index) => {
        const isFound = !!reflectApply(callback, undefined, [item, index, list]);
        if (isFound) result = item;
        return isFound;
      });
      return result;
    }),
    findIndex: withCallback("findIndex", false, (list, callback) => {
      let result = -1;
      eachItem(list, (item, index) => {
        const isFound = !!reflectApply(callback, undefined, [item, index, list]);
        if (isFound) result = index;
        return isFound;
      });
      return result;
    }),
    reduce: (() => {
      const run = function (callback, initial) {
        if (!isIterable(this)) throw makeError("Error", "Must be called on something iterable");
        if (typeof callback !== "function") throw makeError("Error", "First argument must be a function");
        const before = enterStack(CALLBACK_STACK);
        let value = initial;
        let isFirst = initial === undefined;
        eachItem(this, (item, index) => {
          value = isFirst ? item : reflectApply(callback, undefined, [value, item, index, this]);
          isFirst = false;
        });
        if (isFirst) throw makeError("Error", "Used on empty array with no initial value");
        return leaveStack(before, value);
      };
      method(A, "reduce", run);
      return run;
    })(),
  };
  const nativeSplice = A.splice;
  method(A, "splice", function (start, count) {
    if (!isArray(this)) return undefined;
    const list = [].slice.call(arguments, 2);
    const amount = isNumeric(count) ? toInteger(count) : this.length;
    return reflectApply(nativeSplice, this, [toInteger(start), amount, ...list]).filter(() => true);
  });
  method(A, "concat", function () {
    const result = [];
    let source = this;
    for (let i = 0; source !== undefined; source = arguments[i++]) {
      if (!isArray(source)) result.push(source);
      // What does not exist leaves no gap.
      else for (let j = 0; j < source.length; j++) if (j in source) result.push(source[j]);
    }
    return result;
  });
  const nativeFill = A.fill;
  method(A, "fill", function (value, start, end) {
    return reflectApply(nativeFill, this, [value, toInteger(start), isNumeric(end) ? toInteger(end) : undefined]);
  });
  const nativePush = A.push;
  method(A, "push", function () {
    return isArray(this) ? reflectApply(nativePush, this, arguments) : -1;
  });

  // ---- Typed arrays
  const TA = nativeGetPrototypeOf(Uint8Array.prototype);
  const TypedArray = TA.constructor;
  const nativeSet = TA.set;
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
    if (typeof source !== "string" && !isArray(source) && !isBuffer(source))
      throw makeError("Error", `First argument must be Array, not ${typeName(source)}`);
    const values = typeof source === "string" ? bytesOf(source) : source;
    const start = offset === undefined ? 0 : toInteger(offset);
    const room = this.length - start;
    // What does not fit is left out.
    if (room <= 0) return;
    reflectApply(nativeSet, this, [values.length <= room ? values : [].slice.call(values, 0, room), start]);
  });
  for (const name of nativeKeys(iteration)) if (name !== "map") method(TA, name, iteration[name]);
  method(TA, "slice", function (start, end) {
    return [].slice.call(this, start, end);
  });
  const bytesOf = (text) => {
    const bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    return bytes;
  };
  // An ArrayBuffer has items and a length on the board: here it is a list of its bytes with another prototype.
  const NativeUint8Array = Uint8Array;
  const nativeBufferOf = nativeDescriptor(TA, "buffer").get;
  const nativeLengthOf = nativeDescriptor(TA, "length").get;
  const buffers = new NativeWeakMap();
  const wrapBuffer = (buffer) => {
    let wrapper = buffers.get(buffer);
    if (!wrapper) {
      wrapper = new NativeUint8Array(buffer);
      setPrototype(wrapper, ArrayBufferPrototype);
      buffers.set(buffer, wrapper);
    }
    return wrapper;
  };
  const sized = (bytes) => {
    if (bytes < 0) throw makeError("Error", "Invalid length for ArrayBuffer");
    if (bytes > MAX_BUFFER) throw makeError("Error", "ArrayBuffer too long");
    if (bytes > host.memoryBytes) throw host.interrupt("memory");
    return bytes;
  };
  const EspruinoArrayBuffer = function (length) {
    return wrapBuffer(new NativeArrayBuffer(sized(toInteger(length))));
  };
  EspruinoArrayBuffer.prototype = ArrayBufferPrototype;
  method(ArrayBufferPrototype, "constructor", EspruinoArrayBuffer);
  for (const name of ["byteLength", "length"])
    define(ArrayBufferPrototype, name, {
      get() {
        return reflectApply(nativeLengthOf, this, []);
      },
    });
  method(G, "ArrayBuffer", EspruinoArrayBuffer);
  define(TA, "buffer", {
    get() {
      return wrapBuffer(reflectApply(nativeBufferOf, this, []));
    },
  });
  const ArrayBufferView = function () {};
  ArrayBufferView.prototype = TA;
  method(G, "ArrayBufferView", ArrayBufferView);
  const checkedOffset = (value) => {
    const offset = toInteger(value);
    if (offset < 0 || offset > 65535) throw makeError("Error", "byteOffset too large (or negative)");
    return offset;
  };
  // Other than `set`, a constructor takes no text.
  for (const [name, Native] of bufferClasses) {
    const size = Native.BYTES_PER_ELEMENT;
    const isClamped = name === "Uint8ClampedArray";
    const Wrapped = function (source, byteOffset, wantedLength) {
      const offset = checkedOffset(byteOffset);
      if (isArrayBuffer(source)) {
        const buffer = reflectApply(nativeBufferOf, source, []);
        const length = toInteger(wantedLength) || trunc((buffer.byteLength - offset) / size);
        return offset > buffer.byteLength ? new Native(0) : new Native(buffer, offset, length < 0 ? 0 : length);
      }
      if (isNumeric(source)) return new Native(sized(size * toInteger(source)) / size);
      if (!isArray(source) && !isBuffer(source))
        throw makeError("Error", `Unsupported first argument of type ${typeName(source)}`);
      sized(size * source.length);
      return new Native(isClamped ? [].map.call(source, (item) => trunc(toNumber(item))) : source);
    };
    Wrapped.prototype = Native.prototype;
    method(Native.prototype, "constructor", Wrapped);
    define(Wrapped, "BYTES_PER_ELEMENT", { value: size });
    method(G, name, Wrapped);
  }
  const NativeDataView = DataView;
  const DV = NativeDataView.prototype;
  const EspruinoDataView = function (buffer, byteOffset, byteLength) {
    if (!isArrayBuffer(buffer)) throw makeError("TypeError", `Expecting ArrayBuffer, got ${typeName(buffer)}`);
    const native = reflectApply(nativeBufferOf, buffer, []);
    return new NativeDataView(native, toInteger(byteOffset), toInteger(byteLength) || undefined);
  };
  EspruinoDataView.prototype = DV;
  method(DV, "constructor", EspruinoDataView);
  method(G, "DataView", EspruinoDataView);
  const dataViewBuffer = nativeDescriptor(DV, "buffer").get;
  define(DV, "buffer", {
    get() {
      return wrapBuffer(reflectApply(dataViewBuffer, this, []));
    },
  });
  for (const name of ["getBigInt64", "setBigInt64", "getBigUint64", "setBigUint64"]) delete DV[name];
  for (const name of ownNames(DV)) {
    if (!/^[gs]et/.test(name)) continue;
    const native = DV[name];
    const size = +/\d+/.exec(name)[0] / 8;
    // Beyond the end there is nothing to read, and nothing is written.
    method(DV, name, function (byteOffset, ...list) {
      const offset = checkedOffset(byteOffset);
      if (offset + size > this.byteLength) return name[0] === "g" ? 0 : undefined;
      return reflectApply(native, this, [offset].concat(list));
    });
  }
  // ---- Objects
  keep(
    Object,
    (
      "length name prototype assign create defineProperties defineProperty entries fromEntries " +
      "getOwnPropertyDescriptor getOwnPropertyDescriptors getOwnPropertyNames getPrototypeOf keys setPrototypeOf " +
      "values"
    ).split(" "),
  );
  const builtInPrototypes = [A, S, Object.prototype, NativeNumber.prototype, NativeBoolean.prototype, TA];
  const isPlainObject = (value) => isObject(value) && !builtInObjects.has(value);
  const hasChildren = (value) =>
    (typeof value === "object" && value !== null && !host.isPin(value) && !isBuffer(value)) || typeof value === "function";
  /** Names of the properties a program has made; built-in ones cannot be seen. */
  const keysOf = (value) =>
    value === null || value === undefined
      ? []
      : isBuffer(value) || typeof value === "string"
        ? nativeKeys(NativeString(value.length) && [...value])
        : nativeKeys(value).filter((name) => name !== "constructor");
  const hasOwnProperty = (object, name) => {
    const key = str(name);
    const value = unboxed(object);
    if (value === null || value === undefined) return false;
    if (!hasChildren(value)) return false;
    const found = nativeDescriptor(value, key);
    if (!found) return false;
    if (found.enumerable) return true;
    // Of what is built in, an object shows only what hangs on the value itself.
    return (typeof value === "function" || builtInObjects.has(value)) && !/^(length|name|prototype|arguments|caller)$/.test(key);
  };
  const descriptorOf = (object, name) => {
    if (!hasOwnProperty(object, name)) return undefined;
    const found = nativeDescriptor(object, str(name));
    const result = { writable: found.writable !== false, enumerable: true, configurable: found.enumerable };
    if (found.get || found.set) {
      result.get = found.get;
      result.set = found.set;
    } else result.value = found.value;
    return result;
  };
  const propertyNames = (object) => {
    if (object === null || object === undefined || typeof object === "number" || typeof object === "boolean") return [];
    const names = keysOf(object);
    if (builtInPrototypes.includes(object)) return ownNames(object).filter((name) => !/^(length|at)$/.test(name));
    if (isArray(object) || typeof object === "string") names.push("length");
    else if (typeof object === "function" || builtInObjects.has(object))
      for (const name of ownNames(object)) if (!names.includes(name) && hasOwnProperty(object, name)) names.push(name);
    if (typeof object === "function" && !functionInfos.has(object) && object.prototype) names.push("prototype");
    return names;
  };
  method(Object, "getOwnPropertyDescriptor", descriptorOf);
  method(Object, "getOwnPropertyDescriptors", function (object) {
    if (!hasChildren(object)) throw makeError("TypeError", `First argument must be Object, got ${typeName(object)}`);
    const result = {};
    for (const name of propertyNames(object)) result[name] = descriptorOf(object, name);
    return result;
  });
  method(Object, "getOwnPropertyNames", propertyNames);
  method(Object, "defineProperty", function (object, name, descriptor) {
    if (!hasChildren(object))
      throw makeError("Error", `First argument must be Object, Function or Array, got ${typeName(object)}`);
    if (!isObject(descriptor))
      throw makeError("Error", `Property description must be Object, got ${typeName(descriptor)}`);
    const key = str(name);
    const result = { configurable: true, enumerable: true };
    if (descriptor.get || descriptor.set) {
      result.get = descriptor.get;
      result.set = descriptor.set;
    } else {
      result.value = descriptor.value;
      result.writable = descriptor.writable !== false;
      if (!result.writable) {
        // Writing is an error, not only without effect.
        const value = descriptor.value;
        define(object, key, { get: () => value, set: constantSetter, configurable: true, enumerable: true });
        return object;
      }
    }
    define(object, key, result);
    return object;
  });
  method(Object, "defineProperties", function (object, descriptors) {
    if (!isObject(object)) throw makeError("Error", `First argument must be Object, got ${typeName(object)}`);
    if (!isObject(descriptors)) throw makeError("Error", `Second argument must be Object, got ${typeName(descriptors)}`);
    for (const name of nativeKeys(descriptors)) Object.defineProperty(object, name, descriptors[name]);
    return object;
  });
  method(Object, "keys", keysOf);
  method(Object, "values", (object) => keysOf(object).map((name) => object[name]));
  method(Object, "entries", (object) => keysOf(object).map((name) => [name, object[name]]));
  method(Object, "fromEntries", function (list) {
    if (!isArray(list)) return undefined;
    const result = {};
    for (const entry of list) if (isArray(entry) && typeof entry[0] === "string") result[entry[0]] = entry[1];
    return result;
  });
  method(Object, "assign", function () {
    let result;
    for (let i = 0; i < arguments.length; i++) {
      const item = arguments[i];
      if (item === undefined || item === null) continue;
      if (!isPlainObject(item)) throw makeError("TypeError", `Expecting Object, got ${typeName(item)}`);
      if (result === undefined) result = item;
      else for (const name of keysOf(item)) result[name] = item[name];
    }
    return result;
  });
  method(Object, "create", function (prototype, properties) {
    if (!isPlainObject(prototype) && !isBuiltInPrototype(prototype) && prototype !== null)
      throw makeError("TypeError", `Object prototype may only be an Object or null: ${typeName(prototype)}`);
    if (isObject(properties)) throw makeError("Error", "propertiesObject is not supported yet");
    return nativeCreate(prototype === null ? Object.prototype : parentPrototype(prototype));
  });
  method(Object, "getPrototypeOf", (object) =>
    object === null || object === undefined ? undefined : nativeGetPrototypeOf(object),
  );
  method(Object, "setPrototypeOf", function (object, prototype) {
    if (!isPlainObject(object) && typeof object !== "function") throw makeError("TypeError", "Can't extend undefined");
    return setPrototype(object, typeof prototype === "object" || typeof prototype === "function" ? prototype : null);
  });
  const NativeObject = Object;
  const EspruinoObject = function (value) {
    return value === null || value === undefined ? {} : value;
  };
  for (const name of ownNames(NativeObject))
    if (!/^(length|name|prototype|arguments|caller)$/.test(name)) method(EspruinoObject, name, NativeObject[name]);
  EspruinoObject.prototype = NativeObject.prototype;
  method(NativeObject.prototype, "constructor", EspruinoObject);
  method(G, "Object", EspruinoObject);
  const EspruinoBoolean = function (value) {
    return !!value;
  };
  EspruinoBoolean.prototype = NativeBoolean.prototype;
  method(NativeBoolean.prototype, "constructor", EspruinoBoolean);
  method(G, "Boolean", EspruinoBoolean);
  for (const name of [
    "__defineGetter__",
    "__defineSetter__",
    "__lookupGetter__",
    "__lookupSetter__",
    "isPrototypeOf",
    "propertyIsEnumerable",
    "toLocaleString",
  ])
    delete NativeObject.prototype[name];
  method(NativeObject.prototype, "hasOwnProperty", function (name) {
    return hasOwnProperty(this, name);
  });
  method(NativeObject.prototype, "toString", function () {
    const value = unboxed(this);
    if (value === null || value === undefined) return `${value}`;
    return isArray(value) || isBuffer(value) || typeof value === "function" ? str(value) : "[object Object]";
  });

  // Every object of the interpreter can have listeners; `emit` queues, the queue runs when the board is idle.
  // They stand in an array under a name of their own, for all to see.
  const EVENT_PREFIX = "#on";
  const MAX_EMIT_ARGUMENTS = 4;
  const checkEventTarget = (target, name) => {
    if (!hasChildren(target)) throw makeError("TypeError", "Parent must be an object - not a String, Integer, etc");
    if (typeof name !== "string") throw makeError("TypeError", "First argument must be String");
  };
  const addListener = (target, name, listener, isFirst) => {
    checkEventTarget(target, name);
    if (typeof listener !== "function" && typeof listener !== "string")
      throw makeError("TypeError", "Second argument must be a function or a String");
    const old = target[EVENT_PREFIX + name];
    const list = isArray(old) ? old : [];
    // A new list: an event that is on its way keeps the one it has.
    const added = isFirst ? [listener].concat(list) : list.concat([listener]);
    const isHidden = builtInObjects.has(target);
    define(target, EVENT_PREFIX + name, { value: added, writable: true, configurable: true, enumerable: !isHidden });
  };
  const onListener = function (name, listener) {
    addListener(unboxed(this), name, listener, false);
  };
  method(NativeObject.prototype, "on", onListener);
  method(NativeObject.prototype, "addListener", onListener);
  method(NativeObject.prototype, "prependListener", function (name, listener) {
    addListener(unboxed(this), name, listener, true);
  });
  method(NativeObject.prototype, "clone", function () {
    const value = unboxed(this);
    if (!hasChildren(value) || typeof value === "function") return value;
    if (isArray(value)) return value.slice();
    const copy = nativeCreate(nativeGetPrototypeOf(value));
    for (const name of keysOf(value)) copy[name] = value[name];
    return copy;
  });
  method(NativeObject.prototype, "emit", function (name) {
    checkEventTarget(unboxed(this), name);
    emit(this, name, [].slice.call(arguments, 1, 1 + MAX_EMIT_ARGUMENTS));
    if (arguments.length > 1 + MAX_EMIT_ARGUMENTS)
      throw makeError("TypeError", `Too many arguments (>${MAX_EMIT_ARGUMENTS})`);
  });
  method(NativeObject.prototype, "removeListener", function (name, listener) {
    checkEventTarget(unboxed(this), name);
    const list = this[EVENT_PREFIX + name];
    if (!isArray(list)) return;
    const index = list.indexOf(listener);
    if (index >= 0) list.splice(index, 1);
  });
  method(NativeObject.prototype, "removeAllListeners", function (name) {
    if (name === undefined) {
      checkEventTarget(this, "");
      for (const key of ownNames(this)) if (key.startsWith(EVENT_PREFIX)) delete this[key];
      return;
    }
    if (typeof name !== "string") throw makeError("TypeError", "First argument must be String or undefined");
    checkEventTarget(this, name);
    delete this[EVENT_PREFIX + name];
  });
  const listeners = (target, name) => {
    const list = target[EVENT_PREFIX + name];
    return isArray(list) ? list : [];
  };
  /** Whether listeners run, and whether one of them has stopped the rest. */
  const propagation = { isRunning: false, isStopped: false };
  const emit = (target, name, list) => {
    host.onEmit(target, name, list);
    const all = target[EVENT_PREFIX + name];
    if (isArray(all) && all.length) host.queue(() => callListeners(target, all, list));
  };
  /** One after the other, also where one throws: that is said when all are through. */
  const callListeners = (target, all, list) => {
    const before = { ...propagation };
    propagation.isRunning = true;
    propagation.isStopped = false;
    let failure;
    let hasFailed = false;
    for (let i = 0; i < all.length && !propagation.isStopped; ) {
      const listener = all[i];
      try {
        if (typeof listener === "function") reflectApply(listener, target, list);
        else if (typeof listener === "string") host.evaluate(listener, "event");
      } catch (error) {
        if (!hasFailed) failure = error;
        hasFailed = true;
      }
      // One that has taken itself off the list leaves its place to the next.
      if (all[i] === listener) i++;
    }
    propagation.isRunning = before.isRunning;
    propagation.isStopped = before.isStopped;
    if (hasFailed) throw failure;
  };

  // ---- Promise: resolved from the board's event queue, one step at a time.
  const PENDING = 0;
  const REJECTED = 1;
  const FULFILLED = 2;
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
    const promise = nativeCreate(EspruinoPromise.prototype);
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
      if (typeof executor !== "function") throw makeError("Error", `Expecting function, got ${typeName(executor)}`);
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
    const broken = nativeCreate(null);
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
  const ifFunction = (value) => (typeof value === "function" ? value : undefined);
  method(EspruinoPromise.prototype, "then", function (onThen, onCatch) {
    return chain(this, ifFunction(onThen), ifFunction(onCatch));
  });
  method(EspruinoPromise.prototype, "catch", function (onCatch) {
    return chain(this, undefined, ifFunction(onCatch));
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
    if (!isIterable(list))
      throw makeError("TypeError", `Expecting something iterable, got ${typeName(list)}`);
    const results = [];
    let remaining = 0;
    const promise = newPromise();
    const box = { promise, isResolved: false };
    if (typeof list !== "string")
      eachItem(list, (item, index) => {
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
  const number = (value) => (typeof value === "number" ? value : toNumber(value));
  for (const name of "abs acos asin atan cos exp log sin sqrt tan".split(" ")) {
    const native = Math[name];
    method(Math, name, (value) => native(number(value)));
  }
  const nativePow = Math.pow;
  method(Math, "pow", (first, second) => {
    const base = number(first);
    const exponent = number(second);
    return base === 0 && exponent !== exponent ? 0 : nativePow(base, exponent);
  });
  const nativeAtan2 = Math.atan2;
  method(Math, "atan2", (first, second) => nativeAtan2(number(first), number(second)));
  for (const name of ["min", "max"]) {
    const native = Math[name];
    method(Math, name, function (first, second) {
      if (arguments.length === 2) return native(number(first), number(second));
      return native(...[].map.call(arguments, number));
    });
  }
  method(Math, "sign", (given) => {
    const value = number(given);
    return value > 0 ? 1 : value === 0 ? 0 : -1;
  });
  // The result has 64 bits; there is no negative zero.
  method(Math, "round", (given) => {
    const value = number(given);
    const rounded = value < 0 ? 0 - floor(0.5 - value) : floor(value + 0.5);
    return rounded > 2 ** 63 ? -(2 ** 63) : rounded;
  });
  for (const name of ["ceil", "floor"]) {
    const native = Math[name];
    method(Math, name, (value) => native(number(value)) + 0);
  }
  const clip = (value, min, max) => {
    const raised = number(value) < number(min) ? number(min) : number(value);
    return raised > number(max) ? number(max) : raised;
  };
  method(Math, "clip", clip);
  method(Math, "wrap", (given, limit) => {
    const value = number(given);
    const max = number(limit);
    return max < 0 ? 0 : value - trunc(value / max) * max;
  });
  method(Math, "randInt", (range) => Math.floor(Math.random() * (range > 0 ? range : 2 ** 31)));

  // ---- What the board does not have at all.
  for (const object of [Math, JSON]) builtInObjects.add(object);
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
  /** Any letter is a digit to the interpreter. */
  const hexDigit = (code) => {
    if (code >= 48 && code <= 57) return code - 48;
    if (code >= 97 && code <= 122) return code - 87;
    return code >= 65 && code <= 90 ? code - 55 : -1;
  };
  method(G, "decodeURIComponent", function (value) {
    const text = str(value);
    let out = "";
    for (let i = 0; i < text.length; i++) {
      if (text.charCodeAt(i) >= 0x80) throw makeError("Error", "ASCII only");
      if (text[i] !== "%") out += text[i];
      else {
        if (i + 2 >= text.length) throw makeError("Error", "Invalid URI");
        const code = ((hexDigit(text.charCodeAt(i + 1)) << 4) | hexDigit(text.charCodeAt(i + 2))) << 24 >> 24;
        if (code < 0) throw makeError("Error", "Invalid URI");
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
    const digits = [];
    for (const char of value) if (!isSpace(char)) digits.push(BASE64.indexOf(char));
    let length = trunc((digits.length * 3) / 4);
    const text = [...value].filter((char) => !isSpace(char));
    if (text[text.length - 1] === "=") length--;
    if (text[text.length - 2] === "=") length--;
    let out = "";
    for (let i = 0; i < digits.length; i += 4) {
      let bits = 0;
      let valid = 0;
      for (let j = 0; j < 4; j++) {
        if (!(digits[i + j] >= 0)) continue;
        bits |= digits[i + j] << ((3 - j) * 6);
        valid = j;
      }
      for (let j = 1; j <= valid; j++) out += fromCharCode((bits >> ((3 - j) * 8)) & 0xff);
    }
    // What could not be read leaves zeros.
    return out.slice(0, length).padEnd(length, "\0");
  });
  const fromBytes = (values) => {
    let out = "";
    for (let i = 0; i < values.length; i++) out += fromCharCode(values[i] & 0xff);
    return out;
  };

  // ---- Helpers for rewritten source
  /** What a loop can go over; over nothing it takes no turn. */
  const checkLoop = (value) => {
    if (value === null || isNumeric(value))
      throw makeError("Error", `FOR loop can only iterate over Arrays, Strings or Objects, not ${typeName(value)}`);
  };
  /**
   * The names a `for … in` comes to: those of the object as they are when it gets there, then those of its prototypes.
   * From a name that was deleted the interpreter finds no way to the next.
   */
  class KeyIterator {
    constructor(object) {
      this.object = object;
      this.keys = nativeKeys(object);
      this.index = 0;
      this.current = undefined;
      this.result = { done: false, value: undefined };
    }
    [iterator]() {
      return this;
    }
    next() {
      const { object, current, result } = this;
      if (current === undefined || nativeHasOwn.call(object, current)) {
        for (let isFresh = false; ; isFresh = true) {
          const { keys } = this;
          while (this.index < keys.length) {
            const key = keys[this.index++];
            if (!nativeHasOwn.call(object, key)) continue;
            this.current = key;
            result.value = key;
            return result;
          }
          if (isFresh) break;
          this.keys = nativeKeys(object);
          this.index = current === undefined ? 0 : this.keys.indexOf(current) + 1;
        }
      }
      return this.inherited();
    }
    inherited() {
      const { object } = this;
      this.object = typeof object === "object" && !isView(object) ? nativeGetPrototypeOf(object) : null;
      if (this.object === null) {
        this.result.done = true;
        return this.result;
      }
      this.keys = nativeKeys(this.object);
      this.index = 0;
      this.current = undefined;
      return this.next();
    }
  }
  const keyed = (value) => {
    checkLoop(value);
    return new KeyIterator(value === undefined ? "" : value);
  };
  const nullObject = { toString: () => "null", valueOf: () => null, hasOwnProperty: () => false };
  const constantSetter = () => {
    throw makeError("TypeError", "Assignment to a constant");
  };
  const cannotRead = (name, object, at) =>
    makeError("Error", `Can't read property '${name}' of ${object}`, undefined, at);
  const cannotCreate = (name, object, at) =>
    makeError(
      "Error",
      `Field or method "${name}" does not already exist, and can't create it on ${typeName(object)}`,
      undefined,
      at,
    );
  const isIndex = (key) => (typeof key === "number" ? nativeIsInteger(key) : /^-?(0|[1-9]\d*)$/.test(str(key)));
  /** The object a field with a fixed name is set on, or an error. */
  const holder = (object, name, at) => {
    if (typeof object === "object" ? object !== null && !isView(object) : typeof object === "function") return object;
    if (object === null || object === undefined) throw cannotRead(name, object);
    // Setting fields of texts is no error, and has no effect.
    if (typeof object === "string" || (isView(object) && !isBuffer(object))) return object;
    throw cannotCreate(name, object, at);
  };
  /** The name of a field that is set, where it can be. */
  const keyFor = (object, key, at) => {
    if (typeof key === "number" && typeof object === "object" && object !== null)
      return (key | 0) === key ? key : numberToString(key);
    if (hasChildren(object)) return typeof key === "object" && key !== null && !host.isPin(key) ? str(key) : key;
    if (isBuffer(object) && isIndex(key)) return key;
    if (typeof object === "string" && isIndex(key) && +key >= 0) {
      if (+key < object.length)
        throw makeError("Error", "Unable to assign value to non-reference String", undefined, at);
      return key;
    }
    throw cannotCreate(str(key), object);
  };
  /** What `object[key]` gives where that is not just there: nothing, an error, or what has another name in V8. */
  const absent = (object, key) => {
    if (object === null || object === undefined) throw cannotCreate(str(key), object);
    const isPlain = typeof key !== "object" || key === null || host.isPin(key);
    const name = isPlain && !(typeof key === "number" && !nativeIsInteger(key)) ? key : str(key);
    if (hasChildren(object)) return !isPlain && isArray(object) && isIndex(name) ? undefined : object[name];
    if ((typeof object === "string" || isBuffer(object)) && isPlain && isIndex(name) && +name >= 0) return object[name];
    if (isBuiltInName(object, name)) return object[name];
    throw cannotCreate(str(name), object);
  };
  /** Whether built-in values of that kind have something by that name. */
  const isBuiltInName = (value, name) => value !== null && value !== undefined && str(name) in NativeObject(value);
  const has = (key, object) => {
    if (isArray(object) || isObject(object) || typeof object === "function") {
      if (isArray(object) && isIndex(key)) return hasOwn(object, key);
      return isObject(key) ? false : str(key) in object;
    }
    // Nothing is taken for an object that has only what all objects have.
    if (object === null || object === undefined) return str(key) !== "constructor" && hasOwn(NativeObject.prototype, str(key));
    if (isBuffer(object) && isNumeric(key)) return nativeIsInteger(+key) && key >= 0 && key < object.length;
    return isNumeric(key) ? false : isBuiltInName(object, key);
  };
  const isA = (value, Class) => {
    if (builtInObjects.has(Class)) return false;
    if (typeof Class !== "function") throw makeError("Error", `Expecting function on RHS, got ${typeName(Class)}`);
    if (isNumeric(value) && !host.isPin(value)) return Class === EspruinoNumber;
    if (typeof value === "string") return Class === EspruinoString;
    if (value === null || value === undefined) return false;
    if (Class === EspruinoObject) return true;
    const { prototype } = Class;
    if (!hasChildren(prototype)) return false;
    const standIn = Class === EspruinoArray ? undefined : standIns.get(prototype);
    return isPrototypeOf.call(prototype, value) || (standIn !== undefined && isPrototypeOf.call(standIn, value));
  };
  /** `new`: whatever the function returns counts, and its prototype points back to it from then on. */
  const directNew = (Class, at, ...list) => {
    if (typeof Class !== "function" && !builtInObjects.has(Class))
      throw makeError("Error", `Constructor should be a function, but is ${typeName(Class)}`, undefined, at);
    if (primitiveClasses.includes(Class)) return reflectApply(Class, undefined, list);
    if (!functionInfos.has(Class)) {
      useClass(Class);
      return construct(Class, list);
    }
    let { prototype } = Class;
    if (typeof prototype !== "object" || prototype === null) {
      if (prototype !== undefined && typeof prototype !== "function")
        throw makeError("TypeError", `Prototype should be an object, got ${typeName(prototype)}`, undefined, at);
      if (prototype === undefined) {
        prototype = {};
        define(Class, "prototype", { value: prototype, writable: true, configurable: true });
      }
    }
    const own = nativeDescriptor(prototype, "constructor");
    if (!own || own.value !== Class) method(prototype, "constructor", Class);
    const object = nativeCreate(prototype);
    const result = reflectApply(Class, object, list);
    return result === undefined ? object : result;
  };
  const primitiveClasses = [EspruinoString, EspruinoNumber, EspruinoBoolean, EspruinoObject];
  const directCall = (object, key, at, ...list) => {
    if (object === null || object === undefined) throw cannotCreate(str(key), object, at);
    const fn = object[keyForReading(object, key)];
    if (fn === undefined) throw makeError("Error", `Function "${str(key)}" not found!`, undefined, at);
    if (typeof fn !== "function") throw makeError("Error", `Expecting function, got ${typeName(fn)}`, undefined, at);
    return reflectApply(fn, object, list);
  };
  const keyForReading = (object, key) => (typeof key === "object" && key !== null ? str(key) : key);
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
    accessors(object, scope, list) {
      for (let index = 0; index < list.length; index += 3) {
        const fn = nativeDescriptor(object, list[index + 1])[list[index]];
        // The same one may be written twice: the last one stays.
        if (!fn) continue;
        functionInfos.set(fn, list[index + 2]);
        functionScopes.set(fn, scope);
      }
      return object;
    },
    s: (parent, count, read, names) => ({ parent, count, read, names }),
    c: makeClass,
    /** Of a function that is declared once more, whoever holds the first one has the second from then on. */
    again(name, fn) {
      const old = nativeDescriptor(G, name);
      if (old && typeof old.value === "function" && functionInfos.has(old.value)) replacements.set(old.value, fn);
      return fn;
    },
    compared: (value) => (isObject(value) && !builtInObjects.has(value) ? undefined : value),
    checkCall(value, name) {
      if (builtInObjects.has(value)) return;
      const message = value === undefined ? `Function "${name}" not found!` : `Expecting function, got ${typeName(value)}`;
      throw makeError("Error", message);
    },
    callee(fn, name) {
      if (fn === undefined) throw makeError("Error", name ? `Function "${name}" not found!` : "Function not found!");
      if (typeof fn !== "function") throw makeError("Error", `Expecting function, got ${typeName(fn)}`);
    },
    directNew,
    directCall,
    holder,
    key: keyFor,
    at(object, key) {
      if (object === null || object === undefined || (typeof key === "object" && key !== null)) return absent(object, key);
      const value = object[key];
      return value === undefined ? absent(object, key) : value;
    },
    put(object, key, at, isComputed, value) {
      const name = isComputed ? keyFor(object, key) : key;
      if (!isComputed && (object === null || object === undefined)) throw cannotRead(key, object, at);
      const target = isComputed ? object : holder(object, key);
      if (typeof target === "string") return value;
      target[name] = value;
      return target[name];
    },
    ofPrototype(prototype, name) {
      const value = prototype[name];
      if (typeof value !== "function" || functionInfos.has(value) || name === "constructor") return value;
      // What a program has put there is enumerable.
      let owner = prototype;
      while (!hasOwn(owner, name)) owner = nativeGetPrototypeOf(owner);
      return nativeDescriptor(owner, name).enumerable ? value : NativeObject.prototype[name];
    },
    lvalue(isName, assign, at, value) {
      if (!isName) throw makeError("Error", "Unable to assign value to non-reference undefined", undefined, at);
      return assign(value);
    },
    /** What a variable holds as long as its declaration has not been executed. */
    none,
    isNothing: (value) => value === null || value === undefined,
    badTarget(value) {
      throw makeError("Error", `Unable to assign value to non-reference ${typeName(value)}`);
    },
    /** A condition before `?` asks objects for their value, others do not. */
    truth: (value) => (isObject(value) ? valueOf(value) : value),
    has,
    isA,
    neg: (value) => (typeof value === "number" ? 0 - value : operate("-", 0, value)),
    del(object, key) {
      if (!hasChildren(object)) {
        if (object === null || object === undefined) throw cannotRead(str(key), object);
        return false;
      }
      const name = keyForReading(object, key);
      const own = nativeDescriptor(object, name);
      return !!own && own.enumerable && delete object[name];
    },
    delName(name) {
      const own = nativeDescriptor(G, name);
      return !!own && own.enumerable && delete G[name];
    },
    directSuper,
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
    // Of `x += y`: y is known first.
    addTo: (b, a) => add(a, b),
    subTo: (b, a) => (typeof a === "number" && typeof b === "number" ? a - b : operate("-", a, b)),
    mulTo: (b, a) => (typeof a === "number" && typeof b === "number" ? a * b : operate("*", a, b)),
    divTo: (b, a) => (typeof a === "number" && typeof b === "number" ? a / b : operate("/", a, b)),
    modTo: (b, a) => (typeof a === "number" && typeof b === "number" ? a % b : operate("%", a, b)),
    andTo: (b, a) => (typeof a === "number" && typeof b === "number" ? a & b : operate("&", a, b)),
    orTo: (b, a) => (typeof a === "number" && typeof b === "number" ? a | b : operate("|", a, b)),
    xorTo: (b, a) => (typeof a === "number" && typeof b === "number" ? a ^ b : operate("^", a, b)),
    shlTo: (b, a) => operate("<<", a, b),
    shrTo: (b, a) => operate(">>", a, b),
    ushrTo: (b, a) => operate(">>>", a, b),
    inv: (value) => ~toInteger(valueOf(value)),
    num(value) {
      const number = valueOf(value);
      return host.isPin(number) ? number : toNumber(number);
    },
    assign(operation, object, key, value) {
      checkTarget(object, key);
      object[key] = operation(object[key], value);
      return object[key];
    },
    /** What `x++` gives: the number x was. `++x` adds to what x is, which of a text makes a longer one. */
    old: toNumber,
    postfix(operation, object, key) {
      checkTarget(object, key);
      const old = toNumber(object[key]);
      object[key] = operation(old, 1);
      return old;
    },
    u: 0,
    /** null has the methods of every object. */
    boxed: (value) => (value === null ? nullObject : value),
    str,
    caught,
    regexp: (source, flags) => {
      const regexp = nativeCreate(EspruinoRegExp.prototype);
      regexp.source = source;
      if (flags) regexp.flags = flags;
      regexp.lastIndex = 0;
      return regexp;
    },
    /** `arguments`: a list of what was given, and of parameters nothing was given for. */
    args(list, count) {
      const result = [].slice.call(list);
      while (result.length < count) result.push(undefined);
      return result;
    },
    /** What is built in is no variable: a program can declare one by that name, not assign to it. */
    settable(name) {
      const old = nativeDescriptor(G, name);
      if (old && !old.enumerable && typeof old.value === "function" && !functionInfos.has(old.value))
        throw makeError("Error", "Unable to assign value to non-reference Function");
    },
    noArgs() {
      throw makeError("Error", "Can only use 'arguments' variable inside a function");
    },
    touch(object, name, isComputed) {
      if (object !== null && object !== undefined) {
        if (isComputed && !hasChildren(object)) absent(object, name);
        return;
      }
      throw isComputed ? cannotCreate(str(name), object) : cannotRead(name, object);
    },
    typeOf(value) {
      if (typeof value !== "object" || value === null) return typeof value;
      if (host.isPin(value)) return "number";
      if (builtInObjects.has(value)) return "function";
      return brokenValues.has(value) ? "?" : typeof unboxed(value);
    },
    error: (type, message) => makeError(type, message),
    raise(type, message) {
      throw makeError(type, message);
    },
    nameOf(object) {
      if (object === null || object === undefined) throw cannotRead("name", object);
      return typeof object === "function" ? own(object, "name") : object.name;
    },
    setLength(object, name, at, length) {
      if (object === null || object === undefined) throw cannotRead(name, object, at);
      if (isArray(object) || typeof object === "string") throw makeError("TypeError", "Assignment to a constant");
      if (!hasChildren(object)) throw cannotCreate(name, object);
      return (object.length = length);
    },
    keyed,
    iterable(value) {
      checkLoop(value);
      if (value === undefined) return [];
      return typeof value === "string" || isArray(value) || isView(value) ? value : Object.values(value);
    },
    declare(name) {
      helpers.name(name);
      return G[name];
    },
    name(name) {
      const old = nativeDescriptor(G, name);
      if (old && (old.enumerable || old.get || typeof old.value !== "function")) return;
      define(G, name, { value: undefined, writable: true, configurable: true, enumerable: true });
    },
    constant(name, value) {
      // A constant of that name stays.
      const old = nativeDescriptor(G, name);
      if (old && old.set === constantSetter) constantSetter();
      define(G, name, {
        get: () => value,
        set: constantSetter,
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
  const checkTarget = (object, key) => {
    if (hasChildren(object)) return;
    if (object === null || object === undefined)
      throw isIndex(key) ? cannotCreate(str(key), object) : cannotRead(key, object);
    if (typeof key === "number") keyFor(object, key);
    else holder(object, key);
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
    isClass: (fn) => classes.has(fn),
    /** What `bind` has put into a function. */
    boundTo: (fn) => bounds.get(fn),
    /** Names the property in which the listeners of an event stand. */
    eventPrefix: EVENT_PREFIX,
    propagation,
    /** The function that has taken the place of another, if one has. */
    current: (fn) => replacements.get(fn) || fn,
    /** Makes an object one of those the interpreter takes for functions. */
    builtIn: (object) => {
      builtInObjects.add(object);
      return object;
    },
    typeName,
    bytesOf,
    method,
    nativeDescriptor,
    ownNames,
    newObject: (prototype) => (prototype === undefined ? {} : nativeCreate(prototype)),
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
    arrayBuffer: (text) => wrapBuffer(reflectApply(nativeBufferOf, bytesOf(text), [])),
    uint8Array: (text) => bytesOf(text),
    isBuffer: isView,
    parseJson,
    functionText: (info) => functionText(undefined, false, info),
    numberText: numberToString,
    toNumber,
    toInteger,
    eachItem,
    isIterable,
  };
});
