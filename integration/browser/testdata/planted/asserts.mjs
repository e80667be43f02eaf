export default async ({ expect }) => expect.equal(1, 2, 'one is two')
