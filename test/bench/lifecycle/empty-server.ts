/** A grpc-js server whose Probe does nothing but answer: what the library alone costs. */
import * as grpc from '@grpc/grpc-js';
import { clientServices } from '../../../src/base/csi/proto.js';
import { givenEndpoint, reportToParent } from '../streams/server-process.js';

const { Identity } = clientServices();
const server = new grpc.Server();
const answer: grpc.handleUnaryCall<unknown, unknown> = (_call, reply) => reply(null, { ready: { value: true } });
server.addService(Identity, Object.fromEntries(Object.keys(Identity).map((rpc) => [rpc, answer])));
server.bindAsync(givenEndpoint(), grpc.ServerCredentials.createInsecure(), (error) => {
  if (error !== null) throw error;
  reportToParent();
});
