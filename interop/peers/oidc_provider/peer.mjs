// An OpenID provider of node-oidc-provider at a port of its own. Lines on standard input: `serve ADDRESS` makes one for the node
// at the address, with a new key each time; `id-token` and `userinfo` say where claims are from then on.
import { createServer } from 'node:http';
import { generateKeyPairSync, randomUUID } from 'node:crypto';
import { createInterface } from 'node:readline';
import Provider from 'oidc-provider';

const GROUPS = { anna: ['grid-ops', 'staff'], eve: ['visitors'], root: ['grid-ops'] };
const DEVICE_CODE = 'urn:ietf:params:oauth:grant-type:device_code';

let handle = (_request, response) => response.writeHead(503).end();
let conformIdTokenClaims = true;
let address = '';
const server = createServer((request, response) => handle(request, response));
server.listen(0, '127.0.0.1', () => console.log(JSON.stringify({ issuer: issuer() })));

const issuer = () => `http://127.0.0.1:${server.address().port}`;

function serve() {
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const key = { ...privateKey.export({ format: 'jwk' }), kid: randomUUID(), use: 'sig', alg: 'RS256' };
  const provider = new Provider(issuer(), {
    jwks: { keys: [key] },
    conformIdTokenClaims,
    clients: [
      {
        client_id: 'tieline',
        client_secret: 'a secret: of + the % node',
        redirect_uris: [`${address}/login/callback`],
        post_logout_redirect_uris: [`${address}/login`],
        backchannel_logout_uri: `${address}/login/provider-logout`,
        backchannel_logout_session_required: true,
        grant_types: ['authorization_code', DEVICE_CODE],
      },
    ],
    scopes: ['openid', 'profile', 'groups'],
    claims: { openid: ['sub'], profile: ['preferred_username'], groups: ['groups'] },
    findAccount: (_context, id) => ({
      accountId: id,
      claims: () => ({ sub: id, preferred_username: id, groups: GROUPS[id] ?? [] }),
    }),
    cookies: { keys: ['a key for tests'] },
    // The node is at this machine, which the provider's own would not ask.
    fetch: (url, { dispatcher: _, ...options }) => fetch(url, options),
    features: { deviceFlow: { enabled: true }, backchannelLogout: { enabled: true } },
  });
  provider.on('backchannel.error', (_context, error) => console.error('back-channel logout:', error));
  handle = provider.callback();
}

createInterface({ input: process.stdin }).on('line', (line) => {
  const [verb, word] = line.split(' ');
  if (verb === 'id-token' || verb === 'userinfo') conformIdTokenClaims = verb === 'userinfo';
  if (verb === 'serve') address = word;
  serve();
  console.log(JSON.stringify({ done: line }));
});
