/** The museum of lost blocks: the fake driver passes every check of it, and with each bug fails the one that is named after it. */
import { LOSS_DEFECTS } from './fake/defects-losses.js';
import { listOf, proveEvery, provePasses } from './fake/prove.js';

provePasses('loss.*');
proveEvery(listOf(LOSS_DEFECTS));
