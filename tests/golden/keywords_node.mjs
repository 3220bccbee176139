// Fills in the keywords of keywords_node.json, which also holds the texts. To add a text, add it there without keywords;
// then, in an empty folder outside the repository:
//
//     npm install @node-rs/jieba@1.10.4
//     node <repository>/tests/golden/keywords_node.mjs
//
// Texts: the package's own `extract` with the factor 5 of the Node original. Chats: its steps around that, written anew,
// with a Map in place of its plain object (which loses words like "constructor"), with a role weight of 0 taken as 0, and
// with equal weights in the order of their code points.
import { readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'

// The package is looked for where the command runs, not beside this file: the repository has no node_modules.
const require = createRequire(`${process.cwd()}/`)
const jieba = require('@node-rs/jieba')
const path = new URL('keywords_node.json', import.meta.url)
const TOP = 72, SCALE = 5, MIN_WEIGHT = 0.8

const extract = text => jieba.extract(text, TOP).map(({ keyword, weight }) => ({ word: keyword, weight: weight * SCALE }))

// Code points, where < on strings compares UTF-16 units.
function compareCodePoints(a, b) {
	const left = [...a], right = [...b]
	for (let i = 0; i < left.length && i < right.length; i++)
		if (left[i] !== right[i]) return left[i].codePointAt(0) - right[i].codePointAt(0)
	return left.length - right.length
}

function extractChat(messages, roleWeights) {
	const sums = new Map()
	for (const { role, content } of messages)
		for (const { word, weight } of extract(content))
			sums.set(word, (sums.get(word) ?? 0) + weight * roleWeights[role])
	return [...sums].map(([word, weight]) => ({ word, weight }))
		.filter(({ weight }) => weight >= MIN_WEIGHT)
		.sort((a, b) => b.weight - a.weight || compareCodePoints(a.word, b.word))
		.slice(0, TOP)
}

const golden = JSON.parse(readFileSync(path, 'utf8'))
for (const one of golden.texts) one.keywords = extract(one.text)
for (const one of golden.chats) one.keywords = extractChat(one.messages, one.roleWeights)
golden.about = 'Made by keywords_node.mjs with @node-rs/jieba 1.10.4; the texts are written for this project.'
const { about, texts, chats } = golden
// One text a line, so that a change of one is one line of a diff.
const lines = values => values.map(value => `  ${JSON.stringify(value)}`).join(',\n')
writeFileSync(path, `{\n "about": ${JSON.stringify(about)},\n "texts": [\n${lines(texts)}\n ],\n "chats": [\n${lines(chats)}\n ]\n}\n`)
