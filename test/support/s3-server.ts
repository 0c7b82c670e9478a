/** A server of S3 in this process, which keeps objects as files. It answers requests alone that its one account has signed. */
import { once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import { createRequire } from 'node:module';
import type { AddressInfo } from 'node:net';

/** What is used of the package, which has no types. */
interface S3rver {
  store: Store;
  configureBuckets(): Promise<unknown>;
  callback(): RequestListener;
}
interface Store {
  putMetadata(bucket: string, key: string, metadata: object, tag: string): Promise<void>;
  putObjectMultipart(bucket: string, uploadId: string, parts: readonly unknown[]): Promise<unknown>;
}
const S3rver = createRequire(import.meta.url)('@20minutes/s3rver') as new (options: object) => S3rver;

/** The package has no other account. */
export const S3_ACCOUNT = { access_key_id: 'S3RVER', secret_access_key: 'S3RVER' };
export const S3_BUCKET = 'bucket';
/** What the file of an object has behind its key. */
export const S3_SUFFIX = '._S3rver_object';

export class S3Server {
  private constructor(private readonly server: Server) {}

  /** @param directory holds the bucket */
  static async start(directory: string): Promise<S3Server> {
    const app = new S3rver({ silent: true, directory, vhostBuckets: false, configureBuckets: [{ name: S3_BUCKET }] });
    await app.configureBuckets();
    tagPartsAsS3(app.store);
    const answer = app.callback();
    const server = createServer((request, response) => {
      // The package serves unsigned requests as well.
      if (request.headers.authorization === undefined) response.writeHead(403).end();
      else answer(request, response);
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new S3Server(server);
  }

  get url(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}/`;
  }

  close(): void {
    this.server.close();
    this.server.closeAllConnections();
  }
}

/** S3 gives an object of several parts a tag that is no hash of it; the package's is one. */
function tagPartsAsS3(store: Store): void {
  const { putObjectMultipart } = store;
  store.putObjectMultipart = (bucket, uploadId, parts) => {
    const tagging = Object.assign(Object.create(store) as Store, {
      putMetadata: (of: string, key: string, metadata: object, tag: string) =>
        store.putMetadata(of, key, metadata, `${tag}-${parts.length}`),
    });
    return putObjectMultipart.call(tagging, bucket, uploadId, parts);
  };
}
