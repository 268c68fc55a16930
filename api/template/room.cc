// The first source of this room.
