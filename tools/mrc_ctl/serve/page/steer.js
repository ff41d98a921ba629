// SPDX-License-Identifier: Apache-2.0
// Takes a plane out of use, for those who have the token. It is kept until the tab is closed.

import {setText} from '/dom.js';

const dialog = document.getElementById('token');
const value = document.getElementById('token-value');
const note = document.getElementById('token-note');
let wanted = null;

export function changePlane(plane) {
  wanted = {device: plane.device.id, plane: plane.number, enabled: !plane.enabled};
  setText(document.getElementById('token-title'),
          `${wanted.enabled ? 'Use' : 'Take'} plane ${plane.number} of ${plane.device.program} ` +
          `(pid ${plane.device.pid}) ${wanted.enabled ? 'again' : 'out of use'}?`);
  value.value = sessionStorage.getItem('token') ?? '';
  dialog.showModal();
}

dialog.addEventListener('close', async () => {
  if (dialog.returnValue !== 'go' || !wanted) return;
  const answer = await fetch('/api/plane', {
    method: 'POST', body: JSON.stringify(wanted),
    headers: {'Content-Type': 'application/json', 'X-OpenMRC-Token': value.value},
  });
  if (answer.ok) {
    sessionStorage.setItem('token', value.value);
    return;
  }
  sessionStorage.removeItem('token');
  setText(note, `Not done: ${await answer.text()}`);
  dialog.returnValue = '';
  dialog.showModal();
});
