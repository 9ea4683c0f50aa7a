import type { Tool } from "../firmware/types";

const wifiStatus: Tool = {
  name: "wifi_status",
  description:
    "Tell the Wi-Fi connection of the board. Use it when asked about WiFi, the network, the IP address, whether the " +
    "board is online, or the signal strength. Returns network name, IP address, gateway and signal.",
  parameters: { type: "object", properties: {} },
  repeatable: true,
  execute() {
    let wifi;
    try {
      wifi = require("Wifi");
    } catch (e) {
      return { isError: true, content: "There is no Wi-Fi module on this board." };
    }
    // Not getDetails: it carries the password.
    const status = wifi.getStatus();
    if (status.station !== "connected") return "Wi-Fi is not connected (" + status.station + ")";
    const net = wifi.getIP();
    return `Wi-Fi is connected to ${status.ssid}, IP ${net.ip}, gateway ${net.gw}, signal ${status.rssi} dBm`;
  },
};

export default wifiStatus;
