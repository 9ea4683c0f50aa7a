import { describe, expect, it } from "vitest";
import { createRealm, Interrupt } from "../../host-sim/realm";

const makeRealm = (options: { stackBytes?: number } = {}) => {
  const uncaught: string[] = [];
  const realm = createRealm({ onUncaught: (_error, text) => uncaught.push(text), ...options });
  const printed: unknown[] = [];
  realm.global.p = (value: unknown) => printed.push(value);
  return {
    realm,
    printed,
    uncaught,
    /** Value of the last statement; the event queue runs before it returns. */
    run(code: string): any {
      let result: any;
      let failure: unknown;
      realm.enter(() => {
        try {
          result = realm.evaluate(code);
        } catch (error) {
          failure = error;
        }
      });
      if (failure) throw failure;
      return result;
    },
  };
};

const evaluate = (code: string): any => makeRealm().run(code);

const failure = (code: string): { type: string; message: string; stack: string } => {
  const { run } = makeRealm();
  try {
    run(code);
  } catch (error) {
    return error as { type: string; message: string; stack: string };
  }
  throw new Error(`${code} did not fail`);
};

describe("language", () => {
  it("does not hoist functions", () => {
    expect(failure("f();function f(){}")).toMatchObject({ type: "ReferenceError", message: '"f" is not defined' });
    expect(evaluate("function g(){return 1} g()")).toBe(1);
  });

  it("lets a name used above its declaration mean the outer one", () => {
    expect(evaluate("var x=1;function f(){var seen=x;var x=2;return seen+x}f()")).toBe(3);
    expect(evaluate("function f(){x=5;var x;return x} f()")).toBeUndefined();
  });

  it("finds a function declared later once it has run over it", () => {
    expect(evaluate("function f(){function a(){return b()}function b(){return 7}return a()} f()")).toBe(7);
  });

  it("shares the variable of a loop between closures", () => {
    expect(evaluate("var f=[];for(let i=0;i<3;i++)f.push(()=>i);f.map(g=>g()).join()")).toBe("3,3,3");
    expect(evaluate("var f=[];for(let k in {a:1,b:2})f.push(()=>k);f.map(g=>g()).join()")).toBe("b,b");
  });

  it("puts class fields on the prototype", () => {
    expect(evaluate("class A{list=[]} var a=new A(),b=new A();a.list.push(1);b.list.length")).toBe(1);
  });

  it("runs classes with one level of extends and does not inherit statics", () => {
    expect(
      evaluate(
        "class A{constructor(x){this.x=x}m(){return 1}}" +
          "class B extends A{constructor(){super(4)}m(){return super.m()+this.x}}new B().m()",
      ),
    ).toBe(5);
    expect(evaluate("class A{static s(){}}class B extends A{} typeof B.s")).toBe("undefined");
  });

  it("overflows where the board does: three levels of super, and deep recursion", () => {
    const deep = "class A{m(){}}class B extends A{m(){super.m()}}class C extends B{m(){super.m()}}new C().m()";
    expect(() => makeRealm().run(deep)).toThrow(Interrupt);
    const { run } = makeRealm();
    run("function f(n){return n?1+f(n-1):0}");
    expect(run("f(20)")).toBe(20);
    expect(() => run("f(40)")).toThrow("Too much recursion");
  });

  it("does not let the program catch an overflow", () => {
    const { realm, printed, uncaught } = makeRealm();
    realm.enter(() => void realm.evaluate("function f(){f()} try{f()}catch(e){p('caught')}p('after')"));
    expect(printed).toEqual([]);
    expect(uncaught.join("")).toBe(
      "Uncaught Error: Too much recursion - the stack is about to overflow\nExecution Interrupted\n",
    );
  });

  it("gives the stack back after calls, returns and caught errors", () => {
    const { run } = makeRealm();
    run("function g(){throw 1}function f(){for(var i=0;i<100;i++){try{g()}catch(e){}}return 1}");
    expect(run("var n=0;for(var i=0;i<100;i++)n+=f();n")).toBe(100);
  });

  it.each([
    ["function f(a=1){}", "SyntaxError"],
    ["[...[1]]", "SyntaxError"],
    ["var {a}={a:1}", "ReferenceError"],
    ["({a:1})?.a", "SyntaxError"],
    ["2**3", "SyntaxError"],
    ["var a;a??=1", "SyntaxError"],
    ["({['k']:1})", "SyntaxError"],
    ["(async()=>1)()", "ReferenceError"],
    ["function* g(){}", "SyntaxError"],
    ["x:for(;;){break x}", "ReferenceError"],
    ["class A{#x=1}", "SyntaxError"],
    ["String.raw`${1}`", "SyntaxError"],
    ["switch(1){default:p(1);case 2:p(2)}", "SyntaxError"],
    ["`${'}'}`", "SyntaxError"],
    ["if(1)/a/.test('a')", "SyntaxError"],
    ["/[/]/", "SyntaxError"],
    ["1n", "ReferenceError"],
    ["var é=1", "SyntaxError"],
    ["var x=", "SyntaxError"],
  ])("cannot run %s", (code, type) => {
    expect(failure(code).type).toBe(type);
  });

  it("runs what stands before a construct it cannot parse", () => {
    const { realm, printed } = makeRealm();
    realm.enter(() => void realm.evaluate("p('before');p([...[1]]);p('after')"));
    expect(printed).toEqual(["before"]);
  });

  it("gives eval the scope it stands in, and Function the global one", () => {
    expect(evaluate("function f(){var z=4;return eval('z+0.5+\"\"')} f()")).toBe("4.5");
    expect(evaluate("eval('var q=3;q');global.q")).toBe(3);
    expect(evaluate("new Function('a','b','return a+b')(1,2.25)+''")).toBe("3.25");
  });

  it("makes arguments an array and gives arrows none", () => {
    expect(evaluate("(function(){return Array.isArray(arguments)&&arguments.map(x=>x*2).join()})(1,2)")).toBe("2,4");
    expect(evaluate("(function(){return (()=>typeof arguments[0])()})(5)")).toBe("undefined");
  });

  it("cuts identifiers at 63 characters", () => {
    const name = "a".repeat(64);
    expect(evaluate(`var o={};o.${name}=1;o['${name}']`)).toBeUndefined();
    expect(evaluate(`var ${name}=2;${"a".repeat(63)}`)).toBe(2);
  });

  it("keeps constants of the program constant and lets getters on the global object work as bare words", () => {
    expect(failure("const k=1;k=2")).toMatchObject({ type: "TypeError", message: "Assignment to a constant" });
    expect(evaluate("var n=0;Object.defineProperty(global,'word',{get:function(){n++;return n}});word;word")).toBe(2);
  });

  it("reads minified source, where keywords touch what follows", () => {
    const code =
      'var r="";function f(x){for(let k of[1,2])r+=k;switch(x){case"a"+"b":r+="c"}if(x)r+="d";else"e"+x;return"x"+x}' +
      'function g(x){try{throw"t"+x}catch(e){return typeof"a"+e+typeof/a/}}f("ab")+r+g(1)+void"a"+(\'0\'in[1])';
    expect(evaluate(code)).toBe("xab12cdstringt1objectundefinedtrue");
  });

  it.each([
    "do if(x)x=0;while(x)",
    "do if(x)x=0;else if(x)x=1;while(x)",
    "do if(x){x=0}else{x=0}while(x)",
    "do;while(x)",
    "do while(x);while(x)",
    "do for(;x;){}while(x)",
    "do try{x=0}catch(e){}while(x)",
    "do x=0\nwhile(x)",
  ])("misses a semicolon before while in %s", (code) => {
    const { run } = makeRealm();
    run(`var x=0;function f(){${code};return 1}`);
    expect(() => run("f()")).toThrow(expect.objectContaining({ message: "Got while expected ';'" }));
  });

  it.each([
    "do{if(x)x=0}while(x)",
    "do x=0;while(x)",
    "do if(x)x=1;else x=0;while(x)",
    "do if(x)x=1;else;while(x)",
    "do for(;x;)x=0;while(x)",
    "do do x=0;while(x);while(x)",
    "do break;while(x)",
  ])("runs %s", (code) => {
    expect(evaluate(`var x=0;function f(){${code};return 1}f()`)).toBe(1);
  });

  it("has a variable whose initialiser threw", () => {
    const { run } = makeRealm();
    expect(() => run("var a=1,b=null.x")).toThrow();
    expect(run("typeof b+a+b")).toBe("undefined1undefined");
  });

  it("runs no getter for a member expression that is a statement", () => {
    expect(evaluate("var n=0,o={get x(){n++}};o.x;n")).toBe(0);
  });
});

describe("bytes", () => {
  it("cuts every character above 0xFF to a byte", () => {
    expect(evaluate('"\\u20ac"')).toBe("\xac");
    expect(evaluate("`\\u20ac`")).toBe("\xac");
    expect(evaluate("String.fromCharCode(0x20ac)")).toBe("\xac");
    expect(evaluate("JSON.parse('\"\\\\u20ac\"')")).toBe("\xac");
    expect(evaluate('"\u20ac"')).toBe("\xac");
    expect(evaluate('new Function("return \\"\\\\u20ac\\"")()')).toBe("\xac");
    expect(evaluate('atob("4oKs")')).toBe("\xe2\x82\xac");
  });

  it("lets UTF-8 bytes through", () => {
    expect(evaluate('"\xc3\xa9".length')).toBe(2);
    expect(evaluate('JSON.parse("\\"\xc3\xa9\\"")')).toBe("\xc3\xa9");
    expect(evaluate('JSON.stringify("\xe9")')).toBe('"\\u00E9"');
  });
});

describe("numbers", () => {
  it.each([
    ["1/3+''", "0.33333333333"],
    ["''+(0.1+0.2)", "0.3"],
    ["`${1e21}`", "10e+20"],
    ["[1.5,1e-7].join()", "1.5,1e-7"],
    ["1.0.toFixed(2)", "1.00"],
    ["(1e21).toFixed(1)", "1000000000000000000000.0"],
    ["1/-0+''", "Infinity"],
    ["''+Math.round(-2.5)", "-3"],
    ["JSON.stringify(JSON.parse('12345678901234567890'))", "-6101065172474983424"],
    ["''+Number(' 12 ')", "NaN"],
    ["99999999.9999+''", "99999999.99990001320"],
  ])("%s is %s", (code, wanted) => {
    expect(evaluate(code)).toBe(wanted);
  });
});

describe("library", () => {
  it("lacks what the interpreter lacks", () => {
    const missing =
      "Map Set WeakMap WeakSet Symbol Proxy Reflect URL TextEncoder queueMicrotask" +
      " structuredClone BigInt Intl encodeURI escape fetch Buffer";
    for (const name of missing.split(" ")) expect(evaluate(`typeof ${name}`), name).toBe("undefined");
    for (const code of [
      "Promise.prototype.finally",
      "Promise.race",
      "Object.freeze",
      "Object.is",
      "Object.hasOwn",
      "Array.from",
      "Array.of",
      "[].flat",
      "[].at",
      "[].lastIndexOf",
      "''.at",
      "''.trimStart",
      "''.matchAll",
      "''.localeCompare",
      "Number.isInteger",
      "Math.trunc",
      "Math.hypot",
      "(1).toPrecision",
    ])
      expect(evaluate(`typeof ${code}`), code).toBe("undefined");
    expect(failure("[1].flat()").message).toBe('Function "flat" not found!');
  });

  it("has errors without name and without a common class", () => {
    expect(evaluate("new TypeError('x') instanceof Error")).toBe(false);
    expect(evaluate("typeof new Error('x').name")).toBe("undefined");
    expect(evaluate("var r;try{null.x}catch(e){r=e.type+'|'+e.message+'|'+e}r")).toBe(
      "Error|Can't read property 'x' of null|Error: Can't read property 'x' of null",
    );
    expect(evaluate("var r;try{zz}catch(e){r=e instanceof ReferenceError}r")).toBe(true);
  });

  it("parses JSON as leniently, and refuses it in the same words", () => {
    expect(evaluate("JSON.stringify(JSON.parse(\"{'a':[1,2,],} trailing\"))")).toBe('{"a":[1,2]}');
    expect(evaluate("JSON.parse('0x10')")).toBe(16);
    expect(evaluate("JSON.parse('-')")).toBeUndefined();
    expect(evaluate('JSON.stringify(JSON.parse(\'{"__proto__":1,"b":2}\'))')).toBe('{"b":2}');
    expect(failure("JSON.parse('')").message).toBe("Expecting valid value, got EOF");
    expect(failure("JSON.parse('[1,2')").message).toBe("Got EOF expected ','");
    expect(failure("JSON.parse('<html>')").message).toBe("Expecting valid value, got '<'");
  });

  it("writes JSON without getters and functions, and survives a cycle", () => {
    expect(evaluate("JSON.stringify({get a(){return 1},b(){},c:undefined,d:[undefined]})")).toBe('{"d":[null]}');
    expect(evaluate("var o={};o.o=o;JSON.stringify(o)")).toBe('{"o": ... }');
    expect(evaluate("JSON.stringify(new Uint8Array([1,2]))")).toBe("[1,2]");
    expect(evaluate("JSON.stringify(undefined)")).toBe("null");
  });

  it("knows only the interpreter's regular expressions", () => {
    expect(evaluate("JSON.stringify('data: x'.match(/^data: ?(.*)$/))")).toBe("null");
    expect(evaluate("JSON.stringify('a\\r\\nb'.split(/\\r?\\n/))")).toBe('["a\\r\\nb"]');
    expect(evaluate("/a.b/.test('a\\nb')")).toBe(true);
    expect(evaluate("'aXbX'.replace(/X/g,'-')+'k=v'.match(/(\\w+)=(\\w+)/)[2]")).toBe("a-b-v");
  });

  it("settles promises from the event queue, after what runs", () => {
    const { run, printed } = makeRealm();
    run("Promise.resolve(1).then(p);new Promise(function(r){r(2)}).then(p).then(function(){p(3)});p(0)");
    expect(printed).toEqual([0, 1, 2, 3]);
  });

  it("reports a rejection nobody handles", () => {
    const { run, uncaught } = makeRealm();
    run("Promise.reject(new Error('unh'))");
    expect(uncaught[0]).toContain("Uncaught Error: Unhandled promise rejection: Error: unh\n");
  });

  it("queues emitted events", () => {
    const { run, printed } = makeRealm();
    run("var o={};o.on('x',function(v){p(v)});o.emit('x',1);p(0)");
    expect(printed).toEqual([0, 1]);
  });

  it("limits apply to 256 arguments", () => {
    expect(failure("Math.max.apply(null,new Array(257))").message).toContain("too big");
  });

  it("takes text in Uint8Array.set, byte for byte", () => {
    expect(evaluate("var a=new Uint8Array(4);a.set('\xe9b',1);a.join()")).toBe("0,233,98,0");
  });

  it("shows a function's own text", () => {
    expect(evaluate("function f(a, b) {return a+b} f.toString()")).toBe("function (a,b) {return a+b}");
    expect(evaluate("(x=>x.name+1).toString()")).toBe("function (x) {return x.name+1}");
  });
});

describe("errors", () => {
  it("names the place in the text the board has", () => {
    expect(failure("function foo() {\n  bar();\n}\nfoo()").stack).toBe(
      "    at foo (:1:1)\nbar();\n^\n    at REPL (:4:5)\nfoo()\n    ^\n",
    );
    expect(failure("null.x").stack).toBe("    at REPL (:1:5)\nnull.x\n    ^\n");
  });

  it("goes on after an error in one event", () => {
    const { run, printed, uncaught, realm } = makeRealm();
    realm.enter(() => {
      realm.queue(() => run("nofn()"));
      realm.queue(() => run("p(1)"));
    });
    expect(uncaught[0]).toContain('ReferenceError: "nofn" is not defined');
    expect(printed).toEqual([1]);
  });
});

// What the interpreter printed for these, operator by operator.
describe("operators on operands of two types", () => {
  const list = (code: string) => Array.from(evaluate(`[${code}]`));

  it("compares text with what is no number as text", () => {
    expect(list('"slow"<undefined,"slow">undefined,"zoo">undefined,"a"<null,"1"<undefined')).toEqual([
      true,
      false,
      true,
      true,
      true,
    ]);
    expect(list('"a"<{},"z">{},{}<1,1<{},[10]<9,[]<0,true>["a"],{a:1}<=null')).toEqual([
      false,
      true,
      false,
      true,
      true,
      true,
      true,
      true,
    ]);
    expect(list("undefined<1,null<=0,undefined<undefined")).toEqual([false, true, undefined]);
  });

  it("takes the words undefined and null for the values with ==", () => {
    expect(list('"undefined"==undefined,"null"==null,null=="null","undefined"==null,"null"==undefined')).toEqual([
      true,
      true,
      true,
      false,
      false,
    ]);
    expect(list('"undefined"===undefined,"null"!=null,undefined==null,null==0,0=="",[]==0')).toEqual([
      false,
      false,
      true,
      false,
      true,
      false,
    ]);
    expect(list('{}=="[object Object]",[1]==1,[1]=="1"')).toEqual([false, true, true]);
  });

  it("compares objects by what valueOf gives, and byte arrays by their text", () => {
    expect(list("new Date(5)==new Date(5),new Date(5)===5,new Date(5)>new Date(4),{}=={}")).toEqual([
      true,
      true,
      true,
      false,
    ]);
    expect(list("new Uint8Array([1])===new Uint8Array([1]),new Uint8Array([1])==new Uint8Array([2])")).toEqual([
      true,
      false,
    ]);
    expect(list('"a"+new Date(5),String({valueOf:function(){return 5}}),""+Object.create(null)')).toEqual([
      "a5",
      "[object Object]",
      "[object Object]",
    ]);
  });

  it("reads numbers out of text as the interpreter does", () => {
    expect(list('+"1 ","1 "*1,"017"-0,"019"-0,"e"*1,+"0x10",+"1."')).toEqual([NaN, NaN, 15, 19, 0, 16, 1]);
    expect(list('"1e3"|0,"1.5"|0,"12px"|0,~"017","1"+1,undefined-undefined,undefined|undefined')).toEqual([
      0,
      1,
      0,
      -16,
      "11",
      undefined,
      undefined,
    ]);
    expect(list('parseFloat("017"),parseFloat("1.5s"),isNaN(function(){}),isNaN({}),isNaN(" ")')).toEqual([
      15,
      1.5,
      false,
      true,
      false,
    ]);
    expect(failure('"a".repeat(64)==5').message).toBe("String too big to convert to number");
    expect(evaluate('"a".repeat(63)==5')).toBe(false);
    expect(failure('"a".repeat(-1)').message).toBe("Invalid count value");
  });

  it("does the same where it is assigned", () => {
    expect(evaluate('var a="1 ";a-=1;a')).toBeNaN();
    expect(evaluate('var o={n:"1e3"};o.n|=1;o.n')).toBe(1);
    expect(evaluate('var o={n:6},k="n";o[k]>>=1;o.n*=5;o.n')).toBe(15);
  });

  it("takes the number a text is for x++, and adds to the text for ++x", () => {
    expect(evaluate('var x="5",y=x++;[x,y,typeof y].join()')).toBe("6,5,number");
    expect(evaluate('var x="5",y=++x;x+y')).toBe("5151");
    expect(evaluate('var x="1 ";x++;x')).toBeNaN();
    expect(evaluate('var x="0x10";x--;x')).toBe(15);
    expect(evaluate("var x=new Date(5);x++;x")).toBeNaN();
    expect(evaluate("var o={},y=o.a++;isNaN(y)&&isNaN(o.a)")).toBe(true);
    expect(evaluate('var a=["5"],i=0,y=a[i++]++;[a,i,y].join()')).toBe("6,1,5");
    expect(evaluate('var a=["5"],i=0;++a[i++];for(;i<3;++i);--(i);[a,i].join()')).toBe("51,2");
    expect(evaluate("var x=9007199254740992;x++ === x")).toBe(true);
    expect(evaluate("var n=0\nn++\n;(function(){if(n)n++;else++n;return n++})()+n")).toBe(5);
    expect(failure("const k=1;k++").message).toBe("Assignment to a constant");
    expect(failure("nothing++").message).toBe('"nothing" is not defined');
  });

  it("loops over nothing but undefined, functions and what has items", () => {
    expect(evaluate("var n=0;for(var i in undefined)n++;for(i of undefined)n++;for(i of function(){})n++;n")).toBe(0);
    for (const [value, name] of [["null", "null"], ["true", "Number"], ["5", "Number"]])
      for (const word of ["in", "of"])
        expect(failure(`for(var i ${word} ${value});`).message).toBe(
          `FOR loop can only iterate over Arrays, Strings or Objects, not ${name}`,
        );
  });

  it("finds a part of the text where the text ends", () => {
    expect(evaluate('"hard <".indexOf("</think>")')).toBe(-1);
    expect(evaluate('"think hard <".indexOf("</think>")')).toBe(11);
    expect(evaluate('"abcdef\\\\".indexOf("\\\\u")')).toBe(6);
    expect(list('"abc<".indexOf("<t",4),"abc".indexOf("c",5),"abc".indexOf("",5)')).toEqual([3, -1, -1]);
    expect(list('"".indexOf(""),"abcabc".indexOf("a","2")')).toEqual([-1, 0]);
    expect(list('"abc".includes("cx"),"abc".includes("c",99),"abc".includes("bx")')).toEqual([true, false, false]);
    expect(list('"ab".match("bc")[0],"x".match("yy")')).toEqual(["bc", null]);
    expect(list('"abc".lastIndexOf("cx"),"abc<".startsWith("<t",3),"abc".endsWith("cx")')).toEqual([-1, false, false]);
  });

  it("replaces a part of the text where the text ends, in the text as it is by then", () => {
    expect(list('"abc".replace("cx","Z"),"abX".replaceAll("Xy","Z")')).toEqual(["abZ", "abZ"]);
    expect(list('"aab".replaceAll("ab",""),"xaa".replaceAll("ab","b")')).toEqual(["a", "xab"]);
    expect(list('"aaaa".replaceAll("aa","b"),"aaaaa".replaceAll("aa","aab"),"abc".replaceAll("b","$&b")')).toEqual([
      "bb",
      "aabaabaab",
      "a$&bc",
    ]);
  });

  it("splits at separators that overlap", () => {
    expect(list('"abbbbc".split("bb").join(),"aaa".split("aa").join(),"a--b---c".split("--").join("|")')).toEqual([
      "a,bbc,bc,c",
      ",a,",
      "a|b|-c|c",
    ]);
    expect(list('"abc".split("cx").join(),"abc".split("").join("-")')).toEqual(["abc", "a-b-c"]);
  });

  it("tries a pattern that begins with ^ at the start only, with all its alternatives", () => {
    expect(list('/^a|b/.test("xb"),/b|^a/.test("xb"),/^a|b/.test("b"),/(^a)|b/.test("xb")')).toEqual([
      false,
      true,
      true,
      false,
    ]);
    expect(evaluate('" x ".replace(/^\\s+|\\s+$/g,"")')).toBe("x ");
  });

  it("knows what a number is in its own way", () => {
    expect(list('isNaN("1e"),isNaN("e5"),isNaN("1e+"),isNaN("."),isNaN("12px"),isNaN(" ".repeat(64))')).toEqual([
      false,
      false,
      false,
      true,
      true,
      false,
    ]);
    expect(failure('isNaN("a".repeat(64))').message).toBe("String too big to convert to number");
    expect(evaluate('isNaN("a".repeat(63))')).toBe(true);
  });

  it("gives null the methods of an object", () => {
    expect(list('null.toString(),null.hasOwnProperty("a"),null.valueOf()')).toEqual(["null", false, null]);
    expect(list('(1,null).toString(),(0||5).toString(),"a".valueOf()')).toEqual(["null", "5", "a"]);
    expect(failure("var n;n.toString()").message).toBe("Can't read property 'toString' of undefined");
    expect(failure("null.length").message).toBe("Can't read property 'length' of null");
  });

  it("splits nothing off a text that is shorter than the separator by two", () => {
    expect(list('"abc".split("abcde").length,"abc".split("abcd").length,"abc".split("abc").length')).toEqual([0, 1, 2]);
    expect(list('"".split("ab").length,"".split("a").length')).toEqual([0, 1]);
  });
});

describe("a promise that nothing can settle", () => {
  it("is broken where the executor kept neither function", () => {
    const { realm, run, printed, uncaught } = makeRealm();
    expect(run("var q=new Promise(function(){});typeof q")).toBe("?");
    expect(run("q.then")).toBeUndefined();
    expect(() => realm.library.str(run("q"))).toThrowError();
    expect(run("typeof new Promise(function(yes){if(0)yes(1)})")).toBe("?");
    run("Promise.resolve().then(function(){return new Promise(function(){})}).then(function(v){p(typeof v)})");
    expect(printed).toEqual(["?"]);
    expect(uncaught).toEqual([]);
  });

  it("is whole where it was called, kept, or may have been", () => {
    expect(evaluate("typeof new Promise(function(yes){yes(1)})")).toBe("object");
    expect(evaluate("typeof new Promise(function(yes){this.f=yes})")).toBe("object");
    expect(evaluate("var f;typeof new Promise(function(){f=function(){return 1}})")).toBe("object");
    expect(evaluate("typeof new Promise(function(){throw 1}).catch(function(){})")).toBe("object");
  });
});

describe("a loop without end", () => {
  it("is ended as Ctrl-C ends it, and cannot catch that", () => {
    const uncaught: string[] = [];
    const realm = createRealm({ onUncaught: (_error, text) => uncaught.push(text), maxSteps: 1000 });
    for (const code of [
      "while(1);",
      '"ab".padStart(4,"")',
      '"aaaa".replaceAll("aa","a")',
      "for(;;){}",
      "for(;;)try{1}catch(e){}",
      "do n=1;while(true)",
      "(function(){for(var i=0;i>=0;i++)if(i<0)break})()",
    ])
      realm.enter(() => void realm.evaluate(code));
    expect(uncaught).toEqual(Array(7).fill("Execution Interrupted\n"));
    let sum: unknown;
    for (let i = 0; i < 3; i++)
      realm.enter(() => {
        sum = realm.evaluate("var s=0;for(var i=0;i<900;i++)s+=i;s");
      });
    expect(sum).toBe(404550);
    expect(uncaught).toHaveLength(7);
  });
});
