/**
 * The shapes of Espruino's own objects, as types only. They live in one namespace so that host code (with Node's types)
 * can see them too: the simulator models them and tests hand them to board code. The values are in `espruino.d.ts`.
 * Source: the interpreter's `jswrap_*.c` files; what differs from Node is said at the member.
 */
declare namespace Espruino {
  /** A pin of the board. ESP32: D0–D39. `pin + ""` and `String(pin)` give its name, `D2`. */
  interface Pin {
    read(): boolean;
    set(): void;
    reset(): void;
    write(value: boolean | number): void;
    getMode(): PinMode;
    mode(mode?: PinMode): void;
    toggle(): boolean;
    /** `time` in ms. */
    pulse(value: boolean | number, time: number | number[]): void;
    /** 0–1. */
    analog(): number;
    pwm(value: number, options?: AnalogWriteOptions): void;
    /** What the pin can do; empty where there is no such pin. */
    getInfo(): PinInfo | undefined;
  }

  interface PinConstructor {
    /** `undefined` (or a throw) where `value` names no pin. */
    new (value: number | string | Pin): Pin;
    (value: number | string | Pin): Pin;
    prototype: Pin;
  }

  interface PinInfo {
    port: string;
    num: number;
    mode?: unknown;
    output?: unknown;
    in_addr?: number;
    out_addr?: number;
    analog?: unknown;
    functions?: { [name: string]: unknown };
  }

  type PinMode =
    | "auto"
    | "analog"
    | "input"
    | "input_pullup"
    | "input_pulldown"
    | "output"
    | "opendrain"
    | "opendrain_pullup"
    | "af_output"
    | "af_opendrain";

  interface AnalogWriteOptions {
    /** Hz. */
    freq?: number;
    soft?: boolean;
    forceSoft?: boolean;
  }

  interface WatchOptions {
    /** Default false: once only. */
    repeat?: boolean;
    edge?: "rising" | "falling" | "both";
    /** ms; default 0 in code, 25 for a button at some boards. */
    debounce?: number;
    irq?: boolean;
    data?: Pin;
  }

  interface WatchEvent {
    /** Seconds, as `getTime()`. */
    time: number;
    lastTime: number;
    state: boolean;
    pin: Pin;
    data?: boolean;
  }

  /** What every object with events has: several listeners an event, called in order of adding. */
  interface Emitter {
    on(event: string, listener: (...args: any[]) => void): void;
    addListener(event: string, listener: (...args: any[]) => void): void;
    removeListener(event: string, listener: (...args: any[]) => void): void;
    removeAllListeners(event?: string): void;
    emit(event: string, ...args: any[]): void;
  }

  /** A serial device: `Serial1`–`Serial3`, `USB` (Linux build), `Telnet`, `LoopbackA`. Data are byte strings. */
  interface Serial extends Emitter {
    on(event: "data", listener: (data: string) => void): void;
    on(event: string, listener: (...args: any[]) => void): void;
    setConsole(force?: boolean): void;
    setup(baudrate: number, options?: { rx?: Pin; tx?: Pin; bytesize?: number; parity?: string }): void;
    unsetup(): void;
    print(text: string): void;
    println(text: string): void;
    write(...data: (string | number | number[] | ArrayBufferView)[]): void;
    inject(...data: (string | number | number[] | ArrayBufferView)[]): void;
    available(): number;
    read(chars?: number): string | undefined;
    flush(): void;
    isConnected(): boolean;
  }

  /** `require("Storage")`: files in flash. Names are 1–28 bytes, not paths. */
  interface Storage {
    erase(name: string): void;
    eraseAll(): void;
    /** Maps the flash: costs 1 variable on ESP32. `undefined` where there is no such file. */
    read(name: string, offset?: number, length?: number): string | undefined;
    /** Throws where the file is not JSON, unless `noExceptions`. `undefined` where there is no such file. */
    readJSON(name: string, noExceptions?: boolean): unknown;
    readArrayBuffer(name: string): ArrayBuffer | undefined;
    /** With `size` a file of that many bytes is made and `data` stands at `offset`. False where it did not fit. */
    write(name: string, data: string | object | ArrayBufferView, offset?: number, size?: number): boolean;
    writeJSON(name: string, data: unknown): boolean;
    list(regex?: RegExp, filter?: { sf?: boolean }): string[];
    hash(regex?: RegExp): number;
    compact(showMessage?: boolean): void;
    getFree(checkInternalFlash?: boolean): number;
    getStats(checkInternalFlash?: boolean): StorageStats;
    optimise(): void;
    open(name: string, mode: "r" | "w" | "a"): StorageFile;
  }

  interface StorageStats {
    totalBytes: number;
    freeBytes: number;
    fileBytes: number;
    fileCount: number;
    trashBytes: number;
    trashCount: number;
  }

  interface StorageFile {
    read(length: number): string | undefined;
    readLine(): string | undefined;
    getLength(): number;
    write(data: string): void;
    erase(): void;
  }

  /** `require("Wifi")` of the ESP32. */
  interface Wifi extends Emitter {
    connect(
      ssid: string,
      options?: { password?: string; authMode?: string },
      callback?: (error: string | null) => void,
    ): void;
    disconnect(callback?: () => void): void;
    startAP(ssid: string, options?: object, callback?: (error: string | null) => void): void;
    stopAP(callback?: () => void): void;
    scan(callback: (error: string | null, list?: WifiAccessPoint[]) => void): void;
    getStatus(callback?: (status: WifiStatus) => void): WifiStatus;
    getDetails(callback?: (details: WifiDetails) => void): WifiDetails;
    getIP(callback?: (error: string | null, info?: WifiIp) => void): WifiIp;
    getAPIP(callback?: (error: string | null, info?: WifiIp) => void): WifiIp;
    getHostByName(hostname: string, callback: (ip: string | null) => void): void;
    getHostname(callback?: (hostname: string) => void): string;
    setHostname(hostname: string, callback?: () => void): void;
    setSNTP(server: string, timezone: number | string): void;
    setIP(settings: object, callback?: (error: string | null) => void): void;
    setConfig(settings: { powersave?: "none" | "ps-poll"; phy?: string }): void;
    save(what?: "clear" | "sta+ap"): void;
    restore(): void;
  }

  interface WifiStatus {
    /** `off connecting wrong_password no_ap_found connect_fail connected disconnected` and reasons. */
    station: string;
    mode: string;
    powersave: string;
    ap?: string;
    ssid?: string;
    bssid?: string;
    channel?: number;
    /** dBm. */
    rssi?: number;
    htMode?: string;
    authMode?: string;
  }

  interface WifiDetails {
    status: string;
    ssid?: string;
    /** In clear text: never show or send it. */
    password?: string;
    authMode?: string;
  }

  interface WifiIp {
    ip?: string;
    netmask?: string;
    gw?: string;
    mac?: string;
  }

  interface WifiAccessPoint {
    ssid: string;
    mac: string;
    authMode: string;
    channel: number;
    /** dBm. */
    rssi: number;
    isHidden?: boolean;
  }

  /** `require("http")`. */
  interface Http {
    /** Throws `InternalError` where the host is not found or refuses; connecting blocks. */
    request(options: HttpRequestOptions, callback: (response: HttpResponse) => void): HttpRequest;
    get(options: string | HttpRequestOptions, callback: (response: HttpResponse) => void): HttpRequest;
    createServer(callback: (request: HttpServerRequest, response: HttpServerResponse) => void): HttpServer;
  }

  interface HttpRequestOptions {
    host: string;
    port?: number | string;
    path?: string;
    method?: string;
    protocol?: "http:" | "https:";
    /** Sent as they are. No Content-Length is added; `Transfer-Encoding: chunked` is framed by the interpreter. */
    headers?: { [name: string]: string | number };
    ca?: string;
    key?: string;
    cert?: string;
  }

  /** A client request. There is no timeout and no abort call; `clsNow = true` closes the socket (undocumented). */
  interface HttpRequest extends Emitter {
    on(event: "drain", listener: () => void): void;
    on(event: "error", listener: (error: NetError) => void): void;
    on(event: "close", listener: () => void): void;
    on(event: string, listener: (...args: any[]) => void): void;
    /** Byte strings only: a typed array is sent as "0,255,…". Always false; `drain` follows unless `end` was called. */
    write(data: string): boolean;
    end(data?: string): void;
    clsNow?: boolean;
  }

  interface HttpResponse extends Emitter {
    /** A string, unlike Node's. */
    statusCode: string;
    statusMessage: string;
    httpVersion: string;
    /** Names keep the server's case. */
    headers: { [name: string]: string };
    /** `data` comes in pieces of at most 536 bytes; order: data…, end, close. */
    on(event: "data", listener: (data: string) => void): void;
    on(event: "end", listener: () => void): void;
    on(event: "error", listener: (error: NetError) => void): void;
    on(event: "close", listener: (hadError?: boolean) => void): void;
    on(event: string, listener: (...args: any[]) => void): void;
    available(): number;
    read(chars?: number): string | undefined;
  }

  interface NetError {
    /** Negative; -15 is "no response". */
    code: number;
    message: string;
  }

  interface HttpServer {
    listen(port: number): HttpServer;
    close(): void;
  }

  interface HttpServerRequest extends Emitter {
    headers: { [name: string]: string };
    method: string;
    url: string;
    available(): number;
    read(chars?: number): string | undefined;
  }

  interface HttpServerResponse extends Emitter {
    headers: { [name: string]: string };
    write(data: string): boolean;
    end(data?: string): void;
    writeHead(statusCode: number, headers?: { [name: string]: string }): void;
    setHeader(name: string, value: string): void;
  }

  /** `require("net")` and `require("tls")`. */
  interface Net {
    connect(options: { host: string; port: number }, callback: (socket: Socket) => void): Socket;
    createServer(callback: (socket: Socket) => void): HttpServer;
  }

  interface Socket extends Emitter {
    write(data: string): boolean;
    end(data?: string): void;
    available(): number;
    read(chars?: number): string | undefined;
  }

  /** The global `url`. */
  interface Url {
    parse(text: string, parseQuery?: boolean): UrlParts;
  }

  interface UrlParts {
    method: string;
    host: string;
    path: string;
    pathname: string;
    search: string | null;
    /** `null` where the text names none. */
    port: number | null;
    protocol: string | null;
    query: string | { [name: string]: string } | null;
  }

  interface MemoryInfo {
    /** Variables; `blocksize` bytes each. */
    free: number;
    usage: number;
    total: number;
    history: number;
    /** ms spent collecting garbage; absent for `memory(false)`. */
    gc?: number;
    gctime?: number;
    blocksize: number;
    stackEndAddress?: number;
    stackFree?: number;
    flash_start?: number;
    flash_binary_end?: number;
    flash_code_start?: number;
    flash_length?: number;
    /** Bytes of the ESP32's heap outside the variables. */
    free_heap?: number;
    largest_block?: number;
  }

  interface Process extends Emitter {
    version: string;
    env: {
      VERSION: string;
      BOARD: string;
      RAM: number;
      FLASH: number;
      SERIAL: string;
      CONSOLE: string;
      /** Comma separated names for `require`. */
      MODULES: string;
      GIT_COMMIT?: string;
      STORAGE?: number;
      [name: string]: unknown;
    };
    /** Collects garbage first, unless called with false. */
    memory(gc?: boolean): MemoryInfo;
    on(event: "uncaughtException", listener: (error: unknown) => void): void;
    on(event: string, listener: (...args: any[]) => void): void;
  }

  /** Espruino's helper object `E`. Only what an ESP32 has. */
  interface E extends Emitter {
    on(event: "init" | "kill", listener: () => void): void;
    on(event: "errorFlag", listener: (flags: string[]) => void): void;
    on(event: string, listener: (...args: any[]) => void): void;
    getTemperature(): number;
    getAnalogVRef(): number;
    clip(value: number, min: number, max: number): number;
    sum(values: number[] | ArrayBufferView): number;
    variance(values: number[] | ArrayBufferView, mean: number): number;
    /** Seconds. */
    enableWatchdog(timeout: number, isAuto?: boolean): void;
    kickWatchdog(): void;
    getErrorFlags(): string[];
    getFlags(): { [name: string]: boolean | number };
    setFlags(flags: { [name: string]: boolean | number }): void;
    pipe(source: unknown, destination: unknown, options?: PipeOptions): void;
    toArrayBuffer(text: string): ArrayBuffer;
    /** A byte string of all arguments. Flat where there is room; `undefined` for what cannot be turned into bytes. */
    toString(...data: (string | number | number[] | ArrayBufferView | ArrayBuffer)[]): string;
    toFlatString(...data: (string | number | number[] | ArrayBufferView | ArrayBuffer)[]): string | undefined;
    toUint8Array(...data: (string | number | number[] | ArrayBufferView | ArrayBuffer)[]): Uint8Array;
    toJS(value: unknown): string;
    memoryArea(address: number, length: number): string;
    setBootCode(code?: string, alwaysExec?: boolean): void;
    setConsole(device: Serial | null | undefined, options?: { force?: boolean }): void;
    /** `"Serial1"` on ESP32, `"USB"` on Linux. */
    getConsole(): string | null;
    reverseByte(value: number): number;
    dumpVariables(): void;
    dumpFragmentation(): void;
    defrag(): void;
    /** In variables. With `depth` the parts, largest first. */
    getSizeOf(value: unknown): number;
    getSizeOf(value: unknown, depth: number): { name: string; size: number; more?: unknown[] }[];
    getAddressOf(value: unknown, flatAddress?: boolean): number;
    mapInPlace(
      from: ArrayBufferView,
      to: ArrayBufferView,
      map?: ArrayLike<number> | ((value: number, index: number) => number),
    ): void;
    lookupNoCase(haystack: object, needle: string): unknown;
    lookupNoCase(haystack: object, needle: string, returnKey: true): string | undefined;
    dumpStr(): string;
    srand(seed: number): void;
    /** 32 random bits of the hardware. */
    hwRand(): number;
    CRC32(data: string | number[] | ArrayBufferView): number;
    setTimeZone(hours: number): void;
    reboot(): void;
    decodeUTF8(text: string, lookup: (string | number)[], replace: string | ((code: number) => string)): string;
    stopEventPropagation(): void;
    /** `spi` must be set up. What is connected is looked for when the card is first used. */
    connectSDCard(spi: unknown, csPin: Pin): void;
    /** Closes all files of the card. */
    unmountSD(): void;
    /** Throws where there is no card, or no such file. `undefined` where memory is short. */
    openFile(path: string, mode: "r" | "w" | "a" | "r+" | "w+"): File | undefined;
  }

  /** A file of the SD card, which stays open, and in memory, until it is closed. What fails at the card throws. */
  interface File {
    /** `undefined` at the end of the file. */
    read(length: number): string | undefined;
    /** Bytes written: less where the card is full. */
    write(data: string): number;
    seek(position: number): void;
    skip(bytes: number): void;
    close(): void;
  }

  interface PipeOptions {
    chunkSize?: number;
    end?: boolean;
    complete?: () => void;
  }

  interface Modules {
    getCached(): string[];
    removeCached(name: string): void;
    removeAllCached(): void;
    addCached(name: string, source: string | (() => void)): void;
  }

  /** `require("ESP32")`. */
  interface Esp32 {
    reboot(): void;
    /** Microseconds. */
    deepSleep(us: number): void;
    getState(): { sdkVersion: string; freeHeap: number; BLE: boolean; Wifi: boolean; minHeap: number };
    enableBLE(enable: boolean): void;
    enableWifi(enable: boolean): void;
  }
}
