import { mount } from 'svelte';
import App from './App.svelte';
import './app.css';
import { store } from './lib/store.svelte';

store.start();
mount(App, { target: document.getElementById('app')! });
