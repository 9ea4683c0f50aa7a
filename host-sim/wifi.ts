import type { Clock, Deliver, Events } from "./clock";
import { boardError, withEvents } from "./clock";
import type { StorageApi } from "./storage";

export type WifiAuthMode = "open" | "wep" | "wpa" | "wpa2" | "wpa_wpa2";

/** A network the simulated board can see. Without a password it is open. */
export interface WifiNetwork {
  ssid: string;
  password?: string;
  authMode?: WifiAuthMode;
  /** dBm, negative. */
  rssi?: number;
  channel?: number;
  mac?: string;
}

export interface WifiOptions {
  /** The network the board belongs to. Default "espruino-sim". */
  ssid?: string;
  password?: string;
  /** Other networks in range. */
  networks?: WifiNetwork[];
  /** Whether the board has joined its network before the first line of code runs. Default true. */
  connected?: boolean;
  /** Where `save` and `restore` keep their file `.wificfg`; without it they keep it in memory. */
  storage?: Pick<StorageApi, "readJSON" | "write" | "erase">;
  /** How callbacks and events are run. Without it: on the clock, 0 ms later. */
  deliver?: Deliver;
}

type Callback = (...args: any[]) => void;

/** Module `Wifi` as the ESP32 build has it. All other functions of the reference throw, naming themselves. */
export interface WifiApi extends Events {
  connect(ssid: string, options?: { password?: string }, callback?: (error: string | null) => void): void;
  disconnect(callback?: Callback): void;
  scan(callback: (networks: object[]) => void): void;
  startAP(ssid: string, options?: object | null, callback?: (error: string | null) => void): void;
  stopAP(callback?: Callback): void;
  /** The callback is ignored, as in the ESP32 build; the status is returned. */
  getStatus(callback?: Callback): Record<string, string | number>;
  getDetails(callback?: Callback): Record<string, string>;
  getAPDetails(callback?: Callback): Record<string, string | number | boolean>;
  getIP(callback?: (error: null, info: object) => void): Record<string, string>;
  getAPIP(callback?: (error: null, info: object) => void): Record<string, string>;
  getHostname(callback?: Callback): string;
  setHostname(hostname: string, callback?: Callback): void;
  setConfig(settings: { phy?: string; powersave?: string }): void;
  save(what?: "clear"): void;
  restore(): void;
  setIP(...args: unknown[]): never;
  setAPIP(...args: unknown[]): never;
  setSNTP(...args: unknown[]): never;
  getHostByName(...args: unknown[]): never;
  ping(...args: unknown[]): never;
  turbo(...args: unknown[]): never;
}

/** Plain JSON for people and tests. `ip` is there while the link is up. */
export interface WifiState {
  station: "connected" | "connecting" | "off";
  ssid?: string;
  ip?: string;
  accessPoint?: string;
  hostname: string;
}

export interface Wifi {
  api: WifiApi;
  /** Packets can flow: this, not what `getStatus` says, decides whether a request works. */
  isOnline(): boolean;
  /** The outside world: the network the board is on goes out of range (or, by name, another one). */
  drop(ssid?: string): void;
  /** The outside world: the network is back in range. The ESP32 does not join it by itself, see `connect`. */
  comeBack(ssid?: string): void;
  state(): WifiState;
}

/** Simulated radio times in ms, of the order a real one takes. */
const ASSOCIATE_MS = 300;
const DHCP_MS = 500;
const SCAN_MS = 2000;
const SEARCH_MS = 1000;
const HANDSHAKE_TIMEOUT_MS = 3000;
/** Attempts the ESP32 build makes after `connect` before it says so. */
const CONNECT_ATTEMPTS = 3;
const CONFIG_FILE = ".wificfg";
const BOARD_MAC = "24:0a:c4:00:00:01";
const AP_MAC = "24:0a:c4:00:00:02";
const REASONS = { ASSOC_LEAVE: 8, "4WAY_HANDSHAKE_TIMEOUT": 15, BEACON_TIMEOUT: 200, NO_AP_FOUND: 201 };
type Reason = keyof typeof REASONS;
const AUTH_MODES: WifiAuthMode[] = ["open", "wep", "wpa", "wpa2", "wpa_wpa2"];
const MODE_NAMES = ["NULL", "STA", "AP", "APSTA"];
const STATION = 1;
const ACCESS_POINT = 2;

/**
 * The ESP32's Wi-Fi as Espruino shows it. A lost network is not joined again by itself, except while attempts of the
 * last `connect` are left: then the board tries up to twice more, keeps saying "connected", and only then sends
 * `disconnected`. `disconnect(callback)` on a connected board calls back twice. All of this is the real build's way.
 */
export function createWifi(clock: Clock, options: WifiOptions = {}): Wifi {
  const deliver: Deliver = options.deliver ?? ((fn) => void clock.setTimeout(fn, 0));
  const home: WifiNetwork = { ssid: options.ssid ?? "espruino-sim", password: options.password };
  const networks = [home, ...(options.networks ?? [])].map(withDefaults);
  const outOfRange = new Set<string>();

  let mode = 0;
  let config = { ssid: "", password: "" };
  let ap = { ssid: "", password: "", authMode: "open" as WifiAuthMode, channel: 0 };
  let hostname = "espressif";
  let powersave = "modem";
  let joined: Required<WifiNetwork> | undefined;
  let isUp = false;
  let saysConnected = false;
  let attemptsLeft = 0;
  let lastReason: Reason | undefined;
  let onGotIp: Callback | undefined;
  let onDisconnect: Callback | undefined;
  let onScan: Callback | undefined;
  let step: number | undefined;
  let savedConfig: unknown;

  const call = (callback: Callback | undefined, ...args: unknown[]) => {
    if (callback) deliver(() => callback(...args));
  };

  function visible(ssid: string): Required<WifiNetwork> | undefined {
    return networks.find((network) => network.ssid === ssid && !outOfRange.has(ssid));
  }

  function after(ms: number, fn: () => void): void {
    if (step !== undefined) clock.clearTimeout(step);
    step = clock.setTimeout(() => {
      step = undefined;
      fn();
    }, ms);
  }

  /** One attempt to join what `config` names. */
  function join(): void {
    const network = visible(config.ssid);
    if (!network) return after(SEARCH_MS, () => (visible(config.ssid) ? join() : onLost("NO_AP_FOUND")));
    if (network.authMode !== "open" && network.password !== config.password) {
      return after(HANDSHAKE_TIMEOUT_MS, () => onLost("4WAY_HANDSHAKE_TIMEOUT"));
    }
    after(ASSOCIATE_MS, () => {
      if (!visible(config.ssid)) return onLost("NO_AP_FOUND");
      joined = network;
      saysConnected = true;
      api.emit("associated", { ssid: network.ssid, mac: network.mac, channel: String(network.channel) });
      after(DHCP_MS, () => {
        isUp = true;
        const callback = onGotIp;
        onGotIp = undefined;
        call(callback, null);
        api.emit("connected", { ip: address(20), netmask: "255.255.255.0", gw: address(1) });
      });
    });
  }

  /** The radio says the station is disconnected. */
  function onLost(reason: Reason): void {
    const ssid = joined?.ssid ?? config.ssid;
    const mac = joined?.mac ?? "00:00:00:00:00:00";
    isUp = false;
    joined = undefined;
    if (--attemptsLeft > 0) return join();
    saysConnected = false;
    lastReason = reason;
    const disconnected = onDisconnect;
    onDisconnect = undefined;
    call(disconnected);
    api.emit("disconnected", { ssid, mac, reason: String(REASONS[reason]), msg: reason });
    const gotIp = onGotIp;
    onGotIp = undefined;
    call(gotIp, reason);
  }

  function ipInfo(callback: unknown, isStation: boolean): Record<string, string> {
    checkCallback(callback);
    const none = "0.0.0.0";
    const up = isStation ? isUp : (mode & ACCESS_POINT) !== 0;
    const info = {
      ip: up ? address(isStation ? 20 : 1) : none,
      netmask: up ? "255.255.255.0" : none,
      gw: up ? address(1) : none,
      mac: isStation ? BOARD_MAC : AP_MAC,
    };
    call(callback as Callback | undefined, null, info);
    return info;
  }

  function notModelled(name: string): () => never {
    return () => {
      throw boardError("Error", `Wifi.${name} is not modelled by the simulator`);
    };
  }

  const api: WifiApi = withEvents(
    {
      connect(ssid: string, connectOptions?: { password?: string }, callback?: Callback) {
        if (typeof ssid !== "string") throw boardError("Error", "No SSID provided");
        if (connectOptions !== undefined && !isObject(connectOptions)) {
          throw boardError("Error", `Expecting Object, got ${typeName(connectOptions)}`);
        }
        onGotIp = undefined;
        checkCallback(callback);
        onDisconnect = undefined;
        const password = connectOptions?.password;
        if (password !== undefined && typeof password !== "string") {
          throw boardError("Error", `Expecting options.password to be a string but got ${typeName(password)}`);
        }
        mode |= STATION;
        config = { ssid: ssid.slice(0, 32), password: (password ?? "").slice(0, 64) };
        attemptsLeft = CONNECT_ATTEMPTS;
        onGotIp = callback;
        if (saysConnected) after(0, () => onLost("ASSOC_LEAVE"));
        else join();
      },
      disconnect(callback?: Callback) {
        onDisconnect = undefined;
        checkCallback(callback);
        onDisconnect = callback;
        attemptsLeft = 0;
        if (saysConnected || step !== undefined) after(0, () => onLost("ASSOC_LEAVE"));
        call(callback);
      },
      scan(callback: Callback) {
        if (onScan) throw boardError("Error", "A scan is already in progress");
        if (typeof callback !== "function") throw badCallback(callback);
        onScan = callback;
        mode |= STATION;
        clock.setTimeout(() => {
          onScan = undefined;
          const found = networks.filter((network) => visible(network.ssid));
          call(
            callback,
            found.map(({ rssi, authMode, ssid, mac, channel }) => {
              return { rssi, authMode, ssid, mac, channel: String(channel) };
            }),
          );
        }, SCAN_MS);
      },
      startAP(ssid: string, apOptions?: any, callback?: Callback) {
        checkCallback(callback);
        if (typeof ssid !== "string") throw boardError("Error", "No SSID");
        if (apOptions !== undefined && apOptions !== null && !isObject(apOptions)) {
          throw boardError("Error", `Expecting Object, got ${typeName(apOptions)}`);
        }
        ap = readAccessPoint(ssid, apOptions ?? {});
        mode |= ACCESS_POINT;
        call(callback, null);
      },
      stopAP(callback?: Callback) {
        checkCallback(callback);
        mode &= ~ACCESS_POINT;
        call(callback);
      },
      getStatus() {
        const status: Record<string, string | number> = {};
        if (saysConnected) {
          const network = joined ?? withDefaults({ ssid: config.ssid, password: config.password });
          status.station = "connected";
          status.ssid = network.ssid;
          status.bssid = network.mac;
          status.channel = network.channel;
          status.rssi = network.rssi;
          status.htMode = "HT20";
          status.authMode = network.authMode;
        } else {
          status.station = lastReason ?? "Unknown reason";
        }
        const isStarted = saysConnected || (mode & ACCESS_POINT) !== 0;
        status.mode = MODE_NAMES[isStarted ? mode : 0];
        status.powersave = powersave;
        return status;
      },
      getDetails(callback?: Callback) {
        checkCallback(callback);
        const details: Record<string, string> = {};
        if (saysConnected) {
          details.ssid = config.ssid;
          details.password = config.password;
          details.status = "connected";
          details.authMode = joined?.authMode ?? "open";
        } else {
          details.status = lastReason ?? "Unknown reason";
        }
        call(callback, details);
        return details;
      },
      getAPDetails(callback?: Callback) {
        checkCallback(callback);
        const details = { authMode: ap.authMode, hidden: false, maxConn: 4, ssid: ap.ssid, password: ap.password };
        call(callback, details);
        return details;
      },
      getIP: (callback?: Callback) => ipInfo(callback, true),
      getAPIP: (callback?: Callback) => ipInfo(callback, false),
      getHostname: () => hostname,
      setHostname(name: string, callback?: Callback) {
        hostname = String(name);
        if (typeof callback === "function") call(callback);
      },
      setConfig(settings: { phy?: string; powersave?: string }) {
        if (!isObject(settings)) throw boardError("Error", `Expecting Object, got ${typeName(settings)}`);
        if (typeof settings.phy === "string" && !["11b", "11g", "11n"].includes(settings.phy)) {
          throw boardError("Error", "Unknown phy mode");
        }
        if (typeof settings.powersave !== "string") return;
        const known: Record<string, string> = { none: "none", "ps-poll": "modem", min: "min_modem", max: "max_modem" };
        if (!known[settings.powersave]) throw boardError("Error", "Unknown powersave mode");
        powersave = known[settings.powersave];
      },
      save(what?: string) {
        if (what === "clear") {
          savedConfig = undefined;
          options.storage?.erase(CONFIG_FILE);
          return;
        }
        savedConfig = {
          ...config,
          mode,
          sleepType: powersave === "none" ? 0 : 1,
          ssidAP: ap.ssid,
          passwordAP: ap.password,
          authmodeAP: AUTH_MODES.indexOf(ap.authMode),
          hiddenAP: 0,
          channelAP: ap.channel,
          hostname,
        };
        options.storage?.erase(CONFIG_FILE);
        options.storage?.write(CONFIG_FILE, savedConfig);
      },
      restore() {
        const saved: any = options.storage ? options.storage.readJSON(CONFIG_FILE, true) : savedConfig;
        if (!isObject(saved)) return;
        mode = Number(saved.mode) & (STATION | ACCESS_POINT);
        if (mode & ACCESS_POINT) {
          const authMode = AUTH_MODES[saved.authmodeAP] ?? "open";
          ap = { ssid: saved.ssidAP, password: saved.passwordAP, authMode, channel: saved.channelAP };
        }
        if (!(mode & STATION)) return;
        config = { ssid: String(saved.ssid), password: String(saved.password ?? "") };
        if (saved.hostname !== undefined) hostname = String(saved.hostname);
        if (!saysConnected) join();
      },
      setIP: notModelled("setIP"),
      setAPIP: notModelled("setAPIP"),
      setSNTP: notModelled("setSNTP"),
      getHostByName: notModelled("getHostByName"),
      ping: notModelled("ping"),
      turbo: notModelled("turbo"),
    },
    deliver,
  );

  if (options.connected ?? true) {
    const network = networks[0];
    config = { ssid: network.ssid, password: network.password };
    mode = STATION;
    joined = network;
    saysConnected = true;
    isUp = true;
  }

  return {
    api,
    isOnline: () => isUp && joined !== undefined && !outOfRange.has(joined.ssid),
    drop(ssid = joined?.ssid ?? config.ssid) {
      outOfRange.add(ssid);
      if (joined?.ssid === ssid) after(0, () => onLost("BEACON_TIMEOUT"));
    },
    comeBack(ssid) {
      if (ssid === undefined) outOfRange.clear();
      else outOfRange.delete(ssid);
    },
    state() {
      const state: WifiState = { station: isUp ? "connected" : step === undefined ? "off" : "connecting", hostname };
      if (saysConnected || step !== undefined) state.ssid = config.ssid;
      if (isUp) state.ip = address(20);
      if (mode & ACCESS_POINT) state.accessPoint = ap.ssid;
      return state;
    },
  };
}

function withDefaults(network: WifiNetwork): Required<WifiNetwork> {
  return {
    ssid: network.ssid,
    password: network.password ?? "",
    authMode: network.authMode ?? (network.password ? "wpa2" : "open"),
    rssi: network.rssi ?? -55,
    channel: network.channel ?? 6,
    mac: network.mac ?? "02:00:00:00:00:01",
  };
}

function address(host: number): string {
  return `192.168.4.${host}`;
}

function readAccessPoint(ssid: string, options: any) {
  const { channel, password, authMode } = options;
  if (password !== undefined && (typeof password !== "string" || password.length < 8)) {
    throw boardError("Error", "Password must be string of at least 8 characters");
  }
  if (typeof authMode === "string" && (!AUTH_MODES.includes(authMode as WifiAuthMode) || authMode === "wep")) {
    throw boardError("Error", "Unknown authMode value");
  }
  const mode = (typeof authMode === "string" ? authMode : password ? "wpa2" : "open") as WifiAuthMode;
  if (mode !== "open" && !password) throw boardError("Error", "Password not set but authMode not open");
  if (mode === "open" && password) throw boardError("Error", "Auth mode set to open but password supplied");
  const isChannel = Number.isInteger(channel) && channel >= 1 && channel <= 13;
  return { ssid: ssid.slice(0, 32), password: password ?? "", authMode: mode, channel: isChannel ? channel : 0 };
}

function checkCallback(callback: unknown): void {
  if (callback !== undefined && callback !== null && typeof callback !== "function") throw badCallback(callback);
}

function badCallback(callback: unknown): Error {
  return boardError("Error", `Expecting callback function but got ${String(callback)}`);
}

function isObject(value: unknown): value is Record<string, any> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Espruino's name for a value's type in an error text. */
function typeName(value: unknown): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "Array";
  const names: Record<string, string> = { string: "String", boolean: "bool", number: "Number", function: "Function" };
  return names[typeof value] ?? "undefined";
}
