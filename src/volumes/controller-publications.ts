/** What a publication by the controller means for the node. */
import type { AsyncCatalogue } from '../catalogue/catalogue-client.js';

/** Whether the controller has published the volume for reading alone. */
export async function isPublishedReadOnly(
  deps: { catalogue: AsyncCatalogue; config: { readonly controllerPublish: boolean } },
  volumeId: string,
): Promise<boolean> {
  if (!deps.config.controllerPublish) return false;
  const publications = await deps.catalogue.controllerPublications(volumeId);
  return publications.some(({ readOnly }) => readOnly);
}
