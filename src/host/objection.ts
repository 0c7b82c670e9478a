/** Why a file system is not mounted on this host: what is on the device, and what a person can do about it. */
export interface Objection {
  /** In the middle of a sentence: "it has ...". Holds no text from the device. */
  found: string;
  remedy: string;
}
