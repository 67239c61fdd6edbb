// How numbers and times are written.

const whole = new Intl.NumberFormat("en-US");

export function count(number) {
  return number === null || number === undefined ? "" : whole.format(number);
}

export function counted(number, noun) {
  return `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
}

export function rate(perSecond) {
  if (perSecond === null || perSecond === undefined) return "";
  if (perSecond >= 999999.5) return `${(perSecond / 1e6).toFixed(2)} M/s`;
  return `${perSecond >= 10 || Number.isInteger(perSecond) ? count(Math.round(perSecond)) : perSecond.toFixed(1)}/s`;
}

export function bytes(number) {
  const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (number >= 1024 && at < units.length - 1) {
    number /= 1024;
    at += 1;
  }
  return at ? `${number.toFixed(number < 10 ? 1 : 0)} ${units[at]}` : number === 1 ? "1 byte" : `${number} bytes`;
}

// Local time, to the millisecond.
export function time(milliseconds) {
  if (!milliseconds) return "";
  const at = new Date(milliseconds);
  if (Number.isNaN(at.getTime())) return count(milliseconds);
  const two = (number) => String(number).padStart(2, "0");
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ` +
    `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}.${String(at.getMilliseconds()).padStart(3, "0")}`;
}

export function duration(milliseconds) {
  if (milliseconds < 1000) return `${Math.round(milliseconds)} ms`;
  if (milliseconds < 120000) return `${(milliseconds / 1000).toFixed(1)} s`;
  if (milliseconds < 7200000) return `${Math.round(milliseconds / 60000)} min`;
  return `${Math.round(milliseconds / 3600000)} h`;
}
