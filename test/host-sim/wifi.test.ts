import { describe, expect, it } from "vitest";
import { createManualClock } from "../../host-sim/clock";
import { createStorage } from "../../host-sim/storage";
import { createWifi, type WifiOptions } from "../../host-sim/wifi";

function setUp(options: WifiOptions = {}) {
  const clock = createManualClock();
  const wifi = createWifi(clock, options);
  const seen: unknown[] = [];
  for (const event of ["associated", "connected", "disconnected"]) {
    wifi.api.on(event, (details) => seen.push([event, details]));
  }
  return { clock, wifi, api: wifi.api, seen };
}

const names = (seen: unknown[]) => seen.map((item) => (Array.isArray(item) ? item[0] : item));

describe("connected from the start", () => {
  it("is on espruino-sim with an address", () => {
    const { wifi, api, seen } = setUp();
    expect(wifi.isOnline()).toBe(true);
    expect(api.getStatus()).toMatchObject({ station: "connected", ssid: "espruino-sim", mode: "STA", rssi: -55 });
    expect(api.getDetails()).toMatchObject({ ssid: "espruino-sim", status: "connected" });
    expect(api.getIP()).toEqual({
      ip: "192.168.4.20",
      netmask: "255.255.255.0",
      gw: "192.168.4.1",
      mac: "24:0a:c4:00:00:01",
    });
    expect(wifi.state()).toEqual({
      station: "connected",
      ssid: "espruino-sim",
      ip: "192.168.4.20",
      hostname: "espressif",
    });
    expect(seen).toEqual([]);
  });

  it("calls back later, never at once", () => {
    const { clock, api } = setUp();
    const seen: unknown[] = [];
    const info = api.getIP((error, data) => seen.push([error, data]));
    const details = api.getDetails((data) => seen.push(data));
    expect(seen).toEqual([]);
    clock.advance(0);
    expect(seen).toEqual([[null, info], details]);
  });

  it("says so at once when its network is gone, and does not join again by itself", () => {
    const { clock, wifi, api, seen } = setUp();
    wifi.drop();
    expect(wifi.isOnline()).toBe(false);
    clock.advance(0);
    expect(seen).toEqual([
      ["disconnected", { ssid: "espruino-sim", mac: "02:00:00:00:00:01", reason: "200", msg: "BEACON_TIMEOUT" }],
    ]);
    expect(api.getStatus()).toMatchObject({ station: "BEACON_TIMEOUT", mode: "NULL" });
    expect(api.getIP().ip).toBe("0.0.0.0");
    wifi.comeBack();
    clock.advance(60_000);
    expect(wifi.state().station).toBe("off");
    api.connect("espruino-sim");
    clock.advance(2000);
    expect(wifi.isOnline()).toBe(true);
  });

  it("disconnect calls back twice, as the ESP32 build does", () => {
    const { clock, wifi, api, seen } = setUp();
    api.disconnect(() => seen.push("callback"));
    clock.advance(0);
    expect(names(seen)).toEqual(["callback", "callback", "disconnected"]);
    expect(wifi.isOnline()).toBe(false);
    api.disconnect(() => seen.push("again"));
    clock.advance(10_000);
    expect(names(seen).slice(3)).toEqual(["again"]);
  });
});

describe("connect", () => {
  it("associates, gets an address, calls back before the event", () => {
    const { clock, wifi, api, seen } = setUp({ connected: false, ssid: "home", password: "secret12" });
    expect(wifi.isOnline()).toBe(false);
    expect(api.getStatus()).toMatchObject({ station: "Unknown reason", mode: "NULL" });
    api.connect("home", { password: "secret12" }, (error) => seen.push(error));
    expect(wifi.state().station).toBe("connecting");
    clock.advance(300);
    expect(names(seen)).toEqual(["associated"]);
    expect(wifi.isOnline()).toBe(false);
    clock.advance(500);
    expect(seen.slice(1)).toEqual([
      null,
      ["connected", { ip: "192.168.4.20", netmask: "255.255.255.0", gw: "192.168.4.1" }],
    ]);
    expect(wifi.isOnline()).toBe(true);
  });

  it.each([
    ["nowhere", "x", "NO_AP_FOUND"],
    ["home", "wrong", "4WAY_HANDSHAKE_TIMEOUT"],
  ])("gives up on %s with password %s after three attempts: %s", (ssid, password, reason) => {
    const { clock, api, seen } = setUp({ connected: false, ssid: "home", password: "secret12" });
    api.connect(ssid, { password }, (error) => seen.push(error));
    clock.advance(60_000);
    expect(names(seen)).toEqual(["disconnected", reason]);
    expect(api.getStatus().station).toBe(reason);
    expect(api.getDetails()).toEqual({ status: reason });
  });

  it("changes to another network without saying disconnected", () => {
    const { clock, wifi, api, seen } = setUp({ networks: [{ ssid: "guest" }] });
    api.connect("guest");
    clock.advance(5000);
    expect(names(seen)).toEqual(["associated", "connected"]);
    expect(wifi.state().ssid).toBe("guest");
  });

  it("tries twice more when a network it connected to is lost, still saying connected", () => {
    const { clock, wifi, api, seen } = setUp({ connected: false });
    api.connect("espruino-sim");
    clock.advance(5000);
    seen.length = 0;
    wifi.drop();
    clock.advance(1500);
    expect(api.getStatus().station).toBe("connected");
    expect(wifi.isOnline()).toBe(false);
    wifi.comeBack();
    clock.advance(5000);
    expect(names(seen)).toEqual(["associated", "connected"]);
    wifi.drop();
    clock.advance(60_000);
    expect(names(seen).slice(2)).toEqual(["disconnected"]);
  });

  it("refuses what the board refuses, in its words", () => {
    const { api } = setUp();
    expect(() => api.connect(undefined as any)).toThrow("No SSID provided");
    expect(() => api.connect("a", "secret" as any)).toThrow("Expecting Object, got String");
    expect(() => api.connect("a", { password: 5 as any })).toThrow(
      "Expecting options.password to be a string but got Number",
    );
    expect(() => api.connect("a", {}, 7 as any)).toThrow("Expecting callback function but got 7");
    expect(() => api.ping("1.2.3.4")).toThrow("Wifi.ping is not modelled");
  });
});

describe("the rest of the module", () => {
  it("scans what is in range", () => {
    const { clock, wifi, api, seen } = setUp({ networks: [{ ssid: "far", password: "12345678", rssi: -80 }] });
    wifi.drop("espruino-sim");
    api.scan((found) => seen.push(found));
    expect(() => api.scan(() => {})).toThrow("A scan is already in progress");
    clock.advance(2000);
    expect(seen.at(-1)).toEqual([
      { rssi: -80, authMode: "wpa2", ssid: "far", mac: "02:00:00:00:00:01", channel: "6" },
    ]);
  });

  it("is an access point", () => {
    const { clock, wifi, api, seen } = setUp({ connected: false });
    expect(() => api.startAP("me", { password: "short" })).toThrow("Password must be string of at least 8 characters");
    expect(() => api.startAP("me", { authMode: "wpa2" })).toThrow("Password not set but authMode not open");
    api.startAP("me", { password: "longenough" }, (error) => seen.push(error));
    clock.advance(0);
    expect(seen).toEqual([null]);
    expect(wifi.state().accessPoint).toBe("me");
    expect(api.getStatus().mode).toBe("AP");
    expect(api.getAPDetails()).toMatchObject({ ssid: "me", authMode: "wpa2" });
    expect(api.getAPIP().ip).toBe("192.168.4.1");
    api.stopAP();
    expect(wifi.state().accessPoint).toBeUndefined();
  });

  it("saves to the board's Storage and restores from it", () => {
    const storage = createStorage().api;
    const { api } = setUp({ storage });
    api.setHostname("lamp");
    api.save();
    const next = setUp({ storage, connected: false });
    expect(next.wifi.isOnline()).toBe(false);
    next.api.restore();
    next.clock.advance(5000);
    expect(next.wifi.isOnline()).toBe(true);
    expect(next.api.getHostname()).toBe("lamp");
    api.save("clear");
    expect(storage.read(".wificfg")).toBeUndefined();
  });
});
